//! A delivery that our own code may fail at, as far as it has to be known to be buried.

use domain::partition::Partition;
use store::keys::DeliveryKey;
use store::queue::{Doomed, PendingDelivery};

/// A delivery, and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    /// Which one it is.
    pub delivery: DeliveryKey,
    /// The partition of its endpoint.
    pub partition: Partition,
    /// What it was like when it came, or when its attempt began.
    pub doomed: Doomed,
}

impl Suspect {
    /// Suspects a delivery.
    #[must_use]
    pub fn of(delivery: &PendingDelivery) -> Self {
        let PendingDelivery { key, partition, recorded, ended_before, .. } = *delivery;
        let doomed = Doomed { message: key.message, recorded, ended_before };
        Self { delivery: key, partition, doomed }
    }

    /// Suspects a delivery that has come alone. Among several, nobody knows which one it was.
    #[must_use]
    pub fn only(deliveries: &[PendingDelivery]) -> Option<Self> {
        let (first, others) = deliveries.split_first()?;
        others.iter().all(|other| other.key == first.key).then(|| Self::of(first))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::delivery::{Budget, Pending};
    use domain::ids::MessageId;
    use domain::time::Timestamp;
    use store::keys::{ApplicationKey, EndpointKey, MessageKey};

    use super::*;

    fn delivery(message: i64) -> DeliveryKey {
        let message = MessageKey(message);
        DeliveryKey { application: ApplicationKey(1), endpoint: EndpointKey(1), message }
    }

    fn pending(message: i64) -> PendingDelivery {
        let budget =
            Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at: None };
        let at = Timestamp::EPOCH;
        PendingDelivery {
            key: delivery(message),
            partition: Partition::from_number(3).unwrap(),
            turn: 0,
            pending: Pending { due: at, budget },
            recorded: 2,
            ended_before: None,
            last_attempt_at: None,
            message: MessageId::new(at, [0; 16]),
            event_type: "suspect.made".to_owned(),
            received_at: at,
            policy: None,
            content_type: None,
            payload: None,
            expunged: false,
        }
    }

    #[test]
    fn a_delivery_is_suspected_if_it_has_come_alone() {
        let doomed = Doomed { message: MessageKey(1), recorded: 2, ended_before: None };
        let partition = Partition::from_number(3).unwrap();
        let suspect = Suspect { delivery: delivery(1), partition, doomed };
        assert_eq!(Suspect::only(&[pending(1)]), Some(suspect));
        assert_eq!(Suspect::only(&[pending(1), pending(1)]), Some(suspect), "twice the same");
        assert_eq!(Suspect::only(&[pending(1), pending(2)]), None);
        assert_eq!(Suspect::only(&[]), None);
    }
}
