//! Requests to the owner of an endpoint.

use domain::delivery::Delivery;

use crate::keys::DeliveryKey;
use crate::memory::State;
use crate::queue::{Order, Request, RequestKind, turn};

impl State {
    pub(in crate::memory) fn ask(&mut self, request: Request) {
        let number = self.next_row();
        match request.kind {
            RequestKind::RetryNow(message) => {
                let Request { application, endpoint, at, .. } = request;
                self.change(DeliveryKey { application, endpoint, message }, |row| {
                    let Ok(Delivery::Pending(pending)) = row.state.retry_now(at) else {
                        return;
                    };
                    row.state = Delivery::Pending(pending);
                    row.turn = match row.order {
                        Order::Due => pending.due.as_micros(),
                        Order::Fifo if turn::due_if_scheduled(row.turn).is_some() => {
                            turn::scheduled(pending.due)
                        }
                        Order::Fifo => row.turn,
                    };
                });
            }
            RequestKind::ResetBreaker
            | RequestKind::EndPause
            | RequestKind::Refresh
            | RequestKind::Cancel(_) => {}
        }
        self.requests.insert(number, Request { number, ..request });
    }
}
