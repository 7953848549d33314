use proptest::prelude::*;

use super::*;

fn wall() -> impl Strategy<Value = Timestamp> {
    // 2014-05-14 to 2150-06-19, in milliseconds.
    (1_400_000_001_000_i64..5_694_967_295_000).prop_map(|ms| Timestamp::from_micros(ms * 1_000))
}

proptest! {
    #[test]
    fn an_id_reads_back_as_it_was_written(wall in wall(), random: [u8; 16]) {
        let id = MessageId::new(wall, random);
        let text = id.to_string();
        prop_assert_eq!(text.len(), 4 + 27);
        prop_assert_eq!(text.parse::<MessageId>(), Ok(id));
        prop_assert_eq!(id.made_at(), wall);
    }

    #[test]
    fn a_later_millisecond_sorts_later_as_bytes_and_as_text(
        wall in wall(), apart in 1_i64..5_000, one: [u8; 16], other: [u8; 16],
    ) {
        let early = DeliveryId::new(wall, one);
        let late = DeliveryId::new(Timestamp::from_micros(wall.as_micros() + apart * 1_000), other);
        prop_assert!(early < late);
        prop_assert!(early.to_string() < late.to_string());
    }

    #[test]
    fn the_first_id_of_a_moment_is_not_above_any_made_then(wall in wall(), random: [u8; 16]) {
        prop_assert!(MessageId::first_at(wall) <= MessageId::new(wall, random));
        prop_assert_eq!(MessageId::first_at(wall), MessageId::new(wall, [0; 16]));
    }

    #[test]
    fn a_delivery_is_found_from_its_id(
        wall in wall(), random: [u8; 16], row in 0_u64..(1 << 48), other in 0_u64..(1 << 48),
    ) {
        let message = MessageId::new(wall, random);
        let delivery = DeliveryId::derive(&message, row);
        prop_assert_eq!(delivery.endpoint_row(&message), row);
        let (low, high) = delivery.message_range();
        prop_assert!(low <= message && message <= high);
        prop_assert_eq!(delivery.made_at(), message.made_at());
        prop_assert_eq!(DeliveryId::derive(&message, other) == delivery, other == row);
    }

    #[test]
    fn chance_fills_everything_after_the_time(wall in wall()) {
        let filled = MessageId::new(wall, [0xff; 16]);
        prop_assert!(filled.as_bytes()[6..].iter().all(|byte| *byte == 0xff));
        prop_assert_eq!(filled.as_bytes()[5] & 0x3f, 0x3f);
        prop_assert_eq!(filled.made_at(), wall);
    }
}

#[test]
fn ids_are_known_ksuids() {
    // The examples of the KSUID format: all zeros, all ones, and one from its description.
    let zero = MessageId::from_bytes([0; 20]);
    assert_eq!(zero.to_string(), "msg_000000000000000000000000000");
    let full = MessageId::from_bytes([0xff; 20]);
    assert_eq!(full.to_string(), "msg_aWgEPTl1tmebfsQzFP4bxwgy80V");
    let known: MessageId = "msg_0ujtsYcgvSTl8PAuAdqWYSMnLOv".parse().unwrap();
    assert_eq!(known.as_bytes()[..4], 107_608_047_u32.to_be_bytes());
    assert_eq!(known.as_bytes()[4..8], [0xB5, 0xA1, 0xCD, 0x34]);
    assert_eq!(known.made_at().as_seconds(), 1_507_608_047);
}

#[test]
fn a_text_that_is_no_id_says_why() {
    let cases = [
        ("app_000000000000000000000000000", BadId::Prefix("msg_")),
        ("", BadId::Prefix("msg_")),
        ("msg_0", BadId::Length(1)),
        ("msg_0000000000000000000000000000", BadId::Length(28)),
        ("msg_00000000000000000000000000-", BadId::Digits),
        ("msg_aWgEPTl1tmebfsQzFP4bxwgy80W", BadId::Digits),
        ("msg_zzzzzzzzzzzzzzzzzzzzzzzzzzz", BadId::Digits),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<MessageId>(), Err(error), "{text}");
    }
}

#[test]
fn moments_that_no_ksuid_holds_move_to_the_nearest_end() {
    assert_eq!(MessageId::first_at(Timestamp::EPOCH).as_bytes(), &[0; 20]);
    let end = MessageId::first_at(Timestamp::FAR_FUTURE);
    assert_eq!(end.as_bytes()[..4], [0xff; 4]);
    assert_eq!(end.made_at().as_seconds(), 1_400_000_000 + i64::from(u32::MAX));
}

#[test]
fn each_noun_has_its_prefix() {
    let bytes = [7; 20];
    let texts = [
        ApplicationId::from_bytes(bytes).to_string(),
        EndpointId::from_bytes(bytes).to_string(),
        MessageId::from_bytes(bytes).to_string(),
        DeliveryId::from_bytes(bytes).to_string(),
        AttemptId::from_bytes(bytes).to_string(),
        TaskId::from_bytes(bytes).to_string(),
    ];
    let prefixes = ["app_", "ep_", "msg_", "dlv_", "atmpt_", "qtask_"];
    for (text, prefix) in texts.iter().zip(prefixes) {
        assert!(text.starts_with(prefix), "{text}");
        assert_eq!(text.len(), prefix.len() + 27);
    }
}
