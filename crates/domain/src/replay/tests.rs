use super::*;
use crate::delivery::Pending;
use crate::policy::preset;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn id(n: u8) -> DeliveryId {
    DeliveryId::from_bytes([n; 20])
}

fn endpoint(n: u8) -> EndpointId {
    EndpointId::from_bytes([n; 20])
}

const DEAD: Delivery = Delivery::Dead(Cause::Exhausted);

fn candidate(delivery: &Delivery) -> Candidate<'_> {
    Candidate {
        id: id(1),
        endpoint: endpoint(1),
        delivery,
        accepted_at: NOW,
        attempts: 10,
        last_status: Some(503),
    }
}

#[test]
fn each_choice_of_states_covers_what_it_says_and_never_the_pending() {
    let limits = preset("redial").unwrap().policy.limits;
    let pending = Delivery::Pending(Pending::fresh(&limits, NOW));
    let deliveries = [pending, DEAD, Delivery::Cancelled, Delivery::Delivered];
    let table = [
        (States::Dead, [false, true, false, false]),
        (States::Undelivered, [false, true, true, false]),
        (States::Cancelled, [false, false, true, false]),
        (States::Delivered, [false, false, false, true]),
        (States::Settled, [false, true, true, true]),
    ];
    for (states, expected) in table {
        let selection = Selection { states, ..Selection::default() };
        let selected = deliveries.map(|delivery| selection.selects(&candidate(&delivery)));
        assert_eq!(selected, expected, "{states:?}");
    }
    let by_id = Selection { ids: [id(1)].into(), ..Selection::default() };
    let selected = deliveries.map(|delivery| by_id.selects(&candidate(&delivery)));
    assert_eq!(selected, [false, true, true, true]);
}

#[test]
fn everything_a_selection_says_must_fit() {
    let second = std::time::Duration::from_secs(1);
    let base = Selection::default;
    let table = [
        (base(), true),
        (Selection { ids: [id(1), id(2)].into(), ..base() }, true),
        (Selection { ids: [id(2)].into(), ..base() }, false),
        (Selection { endpoint: Some(endpoint(1)), ..base() }, true),
        (Selection { endpoint: Some(endpoint(2)), ..base() }, false),
        (Selection { causes: [Cause::Exhausted].into(), ..base() }, true),
        (Selection { causes: [Cause::Permanent, Cause::Expired].into(), ..base() }, false),
        (Selection { status_class: Some(StatusClass::ServerError), ..base() }, true),
        (Selection { status_class: Some(StatusClass::ClientError), ..base() }, false),
        (Selection { since: Some(NOW), ..base() }, true),
        (Selection { since: Some(NOW.after(second)), ..base() }, false),
        (Selection { until: Some(NOW), ..base() }, false),
        (Selection { until: Some(NOW.after(second)), ..base() }, true),
        (Selection { tried: Tried::Never, ..base() }, false),
        (Selection { ids: [id(1)].into(), causes: [Cause::Expired].into(), ..base() }, false),
    ];
    for (selection, expected) in table {
        assert_eq!(selection.selects(&candidate(&DEAD)), expected, "{selection:?}");
    }
}

#[test]
fn a_cause_means_dead_letters_only() {
    let selection = Selection {
        causes: [Cause::Exhausted].into(),
        states: States::Settled,
        ..Selection::default()
    };
    assert!(selection.selects(&candidate(&DEAD)));
    assert!(!selection.selects(&candidate(&Delivery::Cancelled)));
    assert!(!selection.selects(&candidate(&Delivery::Delivered)));
}

#[test]
fn what_was_never_tried_has_no_status_class() {
    let disabled = Delivery::Dead(Cause::EndpointDisabled);
    let untried = Candidate { attempts: 0, last_status: None, ..candidate(&disabled) };
    let never = Selection { tried: Tried::Never, ..Selection::default() };
    assert!(never.selects(&untried));
    let silent = Selection { status_class: Some(StatusClass::NoAnswer), ..Selection::default() };
    assert!(!silent.selects(&untried));
    assert!(silent.selects(&Candidate { attempts: 1, ..untried }));
}

#[test]
fn statuses_fall_into_their_classes() {
    let table = [
        (None, StatusClass::NoAnswer),
        (Some(0), StatusClass::NoAnswer),
        (Some(100), StatusClass::Informational),
        (Some(199), StatusClass::Informational),
        (Some(200), StatusClass::Success),
        (Some(399), StatusClass::Redirect),
        (Some(400), StatusClass::ClientError),
        (Some(499), StatusClass::ClientError),
        (Some(500), StatusClass::ServerError),
        (Some(999), StatusClass::ServerError),
    ];
    for (status, class) in table {
        assert_eq!(StatusClass::of(status), class, "{status:?}");
    }
}
