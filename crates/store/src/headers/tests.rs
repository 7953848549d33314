use proptest::prelude::*;

use super::*;

const ODD: [(&str, &str); 6] = [
    ("[b", "1"),
    ("a", "\"quoted\" \\ ü\u{1}\n\0"),
    ("b", ""),
    ("x", "a\u{7f}b"),
    ("host", "host"),
    ("", "\u{2}"),
];

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What a delivery sends.
fn sent() -> Vec<(&'static str, &'static str)> {
    vec![
        ("host", "127.0.0.1:8080"),
        ("user-agent", "Redial/0.1.0"),
        ("accept", "*/*"),
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
        ("content-length", "512"),
        ("webhook-id", "msg_2nd9qhKmQo3dSTgmMbbY3Z2kgkX"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,AbHNpuKlgmTF9uNY1kTP4R1Y9vKrwHcX9CszPZ2gSRk="),
        ("svix-id", "msg_2nd9qhKmQo3dSTgmMbbY3Z2kgkX"),
        ("svix-timestamp", "1700000000"),
        ("svix-signature", "v1,AbHNpuKlgmTF9uNY1kTP4R1Y9vKrwHcX9CszPZ2gSRk="),
    ]
}

#[test]
fn what_a_delivery_sends_takes_a_third_of_what_it_would_as_json() {
    let pairs = sent();
    let headers: Headers = pairs.iter().copied().collect();
    let json = serde_json::to_string(&pairs).unwrap();
    assert!(headers.len() * 3 < json.len(), "{} of {}", headers.len(), json.len());
    assert_eq!(headers.pairs(), owned(&pairs));
}

#[test]
fn a_twin_with_a_value_of_its_own_keeps_it() {
    let pairs = [
        ("svix-id", "before its twin"),
        ("webhook-id", "a"),
        ("svix-id", "ab"),
        ("webhook-id", "b"),
        ("svix-id", "a"),
        ("svix-id", "b"),
        ("svix-other", "b"),
        // A name as a value is no name.
        ("webhook-timestamp", "1"),
        ("other", "webhook-timestamp"),
        ("a", "c"),
        ("svix-timestamp", "a"),
    ];
    let headers: Headers = pairs.into_iter().collect();
    assert_eq!(headers.pairs(), owned(&pairs));
}

#[test]
fn what_is_read_back_is_the_same() {
    let headers: Headers = ODD.into_iter().collect();
    let read = Headers::from_stored(headers.stored().to_owned()).unwrap();
    assert_eq!(read, headers);
    assert_eq!(read.pairs(), owned(&ODD));
}

#[test]
fn none_is_stored_as_none_was_at_first() {
    assert_eq!(Headers::default().stored(), "[]");
    assert_eq!(Headers::from_stored("[]".to_owned()).unwrap(), Headers::default());
}

#[test]
fn the_first_form_is_read_as_the_same_list() {
    let json = serde_json::to_string(&ODD.to_vec()).unwrap();
    assert_eq!(Headers::from_stored(json).unwrap(), ODD.into_iter().collect());
}

/// Rows with these letters are on people's disks.
#[test]
fn known_texts_stay_where_they_are() {
    for (place, text) in
        [(0, "host"), (11, "svix-signature"), (24, "x-content-type-options"), (35, "0")]
    {
        assert_eq!(TEXTS[place], text);
    }
    let letters = TEXTS.map(|text| letter(text).unwrap());
    assert!(letters.is_sorted() && letters[0] == b'0' && letters.iter().all(u8::is_ascii));
}

#[test]
fn what_is_no_list_is_refused() {
    for text in [
        "{}",
        "[",
        "a",
        "a\u{3}",
        "a\u{3}b",
        "\u{1}",
        "\u{1}\u{7e}b\u{3}",
        "a\u{3}\u{2}",
        "svix-id\u{3}\u{2}",
        "\u{4}a\u{3}b\u{3}",
        "\u{1}ü",
    ] {
        assert!(Headers::from_stored(text.to_owned()).is_err(), "{text:?}");
    }
}

/// Texts that are likely to be taken for something else.
fn text() -> impl Strategy<Value = String> {
    let twins = ["webhook-id", "svix-id", "svix-signature", "host", "a", "[", ""];
    let twins = prop::sample::select(twins.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => twins, 1 => "[\0-\u{1f}\\[ab]{0,3}", 1 => "\\PC{0,5}"]
}

proptest! {
    #[test]
    fn any_list_comes_back(
        pairs in prop::collection::vec((text(), text()), 0..9)
    ) {
        let headers: Headers = pairs.iter().map(|(name, value)| (name, value)).collect();
        prop_assert!(!headers.stored().contains('\0'));
        let read = Headers::from_stored(headers.stored().to_owned()).unwrap();
        prop_assert_eq!(read.pairs(), pairs);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\u{1}-\u{5}0-Za-c\\[\"]{0,20}") {
        drop(Headers::from_stored(text));
    }
}
