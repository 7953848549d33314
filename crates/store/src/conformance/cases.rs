//! The one line that makes a test of each case.

/// Tests an implementation: one test for each case of the suite.
///
/// It takes the name of an `async fn() -> store::conformance::Harness` that opens an empty store.
/// The crate that uses it needs `tokio` with its test macro.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! { $open;
            accepting:
                an_accepted_message_is_there_with_all_that_was_said
                a_message_without_deliveries_is_accepted
                each_delivery_gets_its_turn_and_its_derived_id
                a_delivery_can_begin_as_a_dead_letter
                a_later_message_has_a_higher_key
                fifo_turns_grow_in_the_order_of_acceptance
                an_unknown_application_has_no_messages
                a_deleted_application_accepts_nothing_not_even_a_repeat
                the_same_key_again_names_the_first_message
                a_key_used_twice_in_a_batch_has_one_winner
                a_repeat_is_recognised_although_its_revision_is_old
                a_key_is_forgotten_after_twelve_hours
                a_key_belongs_to_one_application
                an_event_id_is_used_once
                a_stale_fan_out_is_refused_and_writes_nothing
                an_endpoint_created_elsewhere_counts_for_the_next_message
                a_delivery_to_an_unknown_endpoint_is_refused_alone
                a_text_that_a_database_cannot_hold_harms_no_other
                a_repeated_batch_answers_alike_and_writes_nothing_more
                a_batch_that_comes_again_is_known_although_its_revision_is_old
                one_bad_item_of_each_kind_harms_none_of_the_good_ones
            ;
            fencing:
                a_settle_under_an_old_epoch_writes_nothing
                a_settle_under_an_epoch_of_the_future_writes_nothing
                a_settled_attempt_that_comes_again_too_late_is_fenced
                the_new_owner_settles_what_the_old_one_loaded
                a_fenced_settle_harms_no_other_of_its_batch
                steps_of_an_old_owner_write_nothing
                the_other_handle_is_fenced_too
            ;
            loading:
                a_load_brings_all_that_sending_needs
                the_earliest_due_is_loaded_first_and_the_earlier_message_before_its_equal
                a_load_says_whether_it_is_complete
                payloads_come_until_their_bytes_are_used_up
                an_expunged_payload_is_not_loaded
                a_load_knows_one_endpoint_of_one_application
                every_endpoint_with_something_pending_is_waiting
                a_fifo_endpoint_waits_for_the_first_of_its_line
                only_the_given_partitions_are_looked_at
            ;
            settling:
                a_delivered_delivery_is_done
                a_dead_delivery_keeps_its_cause
                a_retry_is_pending_with_its_new_due_time_and_budget
                a_fifo_delivery_keeps_its_turn_when_it_is_retried
                the_same_settle_again_answers_alike_and_records_once
                a_settle_that_was_left_alone_is_left_alone_again
                a_cancel_stands
                a_settle_with_an_old_count_is_recorded_only
                two_settles_of_a_delivery_in_one_batch_count_in_order
                a_settle_of_a_delivery_that_is_gone_says_so
                a_settle_brings_the_running_state_along
                a_settle_that_is_left_alone_brings_the_running_state_along
                a_message_to_two_endpoints_is_settled_for_each
            ;
        }
    };
    ($open:path; $($theme:ident: $($case:ident)*;)*) => {
        $($(
            #[::tokio::test]
            async fn $case() {
                $crate::conformance::$theme::$case($open().await).await;
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_list() {
        let list = include_str!("cases.rs");
        let listed = |name: &str| list.lines().any(|line| line.trim() == name);
        let mut cases = 0;
        for (theme, text) in super::super::THEMES {
            assert!(listed(&format!("{theme}:")), "{theme} is not listed");
            let names = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            for name in names.filter_map(|rest| rest.split('(').next()) {
                assert!(listed(name), "{theme}::{name} is not listed");
                cases += 1;
            }
        }
        assert!(cases >= 50, "only {cases} cases were found");
    }
}
