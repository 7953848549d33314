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
                a_delivery_to_another_applications_endpoint_is_refused
                a_message_that_is_refused_keeps_no_key_from_the_next_of_its_batch
                a_text_that_a_database_cannot_hold_harms_no_other
                a_repeated_batch_answers_alike_and_writes_nothing_more
                a_batch_that_comes_again_is_known_although_its_revision_is_old
                one_bad_item_of_each_kind_harms_none_of_the_good_ones
            ;
            catalog:
                an_application_is_found_as_it_was_created
                an_application_is_changed_and_its_revision_raised
                an_unknown_application_is_missing
                an_applications_uid_is_taken_until_it_is_deleted
                a_deleted_application_is_gone_at_once
                an_endpoint_is_found_as_it_was_created
                an_endpoint_in_every_state_is_read_as_it_was_written
                an_endpoint_is_changed_where_it_can_be
                an_unknown_endpoint_is_missing
                an_endpoints_uid_is_taken_in_its_application_until_it_is_deleted
                a_deleted_endpoint_is_gone_at_once_but_not_its_deliveries
                every_change_that_a_fan_out_sees_raises_the_revision
                the_order_of_an_endpoint_changes_only_while_nothing_is_pending
                a_fan_out_shows_living_endpoints_by_row
                an_event_type_is_kept_replaced_and_removed
                a_token_is_kept_and_revoked
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
            filters:
                messages_are_filtered_by_type_channel_and_time
                payloads_are_listed_if_they_are_asked_for
                deliveries_are_filtered_by_state_cause_class_type_and_time
                dead_letters_are_filtered_like_deliveries
                attempts_are_filtered_by_success_class_type_and_time
            ;
            leases:
                a_new_node_owns_nothing
                a_node_owns_what_it_took
                no_more_is_taken_than_was_asked_for
                nothing_is_taken_from_a_node_that_renews
                what_a_silent_node_owned_is_taken_under_a_new_epoch
                a_silent_node_that_nobody_replaced_still_owns_its_own
                a_node_counts_the_others_that_are_alive
                what_is_released_can_be_taken_at_once
                a_release_that_comes_too_late_is_left_alone
                a_release_that_comes_twice_gives_back_once
                epochs_only_grow
                time_does_not_go_back
            ;
            listing:
                applications_are_listed_by_id_and_deleted_ones_are_not
                endpoints_are_listed_newest_first_and_deleted_ones_are_not
                event_types_are_listed_by_name_archived_ones_included
                tokens_are_listed_by_id
                messages_are_listed_newest_first
                deliveries_are_listed_by_message_newest_first
                dead_letters_of_all_endpoints_are_listed_newest_message_first
                attempts_of_all_deliveries_are_listed_newest_first
                tasks_are_listed_newest_first_for_one_application_or_all
                an_empty_list_is_done_at_once
                a_page_that_would_walk_too_far_comes_short_and_says_so
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
            pruning:
                a_delivered_message_goes_when_its_time_is_over
                a_message_without_deliveries_goes_too
                a_message_with_something_pending_stays
                a_cancelled_delivery_keeps_nothing
                a_dead_letter_stays_for_thirty_days
                a_dead_letter_does_not_go_before_its_message
                a_settle_of_what_was_pruned_says_that_it_is_gone
                a_key_that_was_pruned_is_never_given_again
                an_event_id_is_free_when_its_message_is_gone
                an_idempotency_key_goes_after_twelve_hours
                a_key_that_a_later_message_took_over_stays
                a_step_removes_no_more_than_it_may
                what_is_pending_for_a_deleted_endpoint_is_buried_in_steps
                secrets_whose_time_is_over_go
                all_that_a_deleted_application_had_goes_in_steps
            ;
            records:
                an_attempt_is_read_as_it_was_written
                every_outcome_is_read_as_it_was_written
                a_response_is_kept_as_far_as_its_status_allows
                the_attempts_of_a_delivery_are_told_newest_first
                a_delivery_is_found_by_its_derived_id
                the_deliveries_of_a_message_are_told_by_endpoint
                an_unknown_message_is_missing
                an_application_sees_nothing_of_another
                an_expunged_payload_is_gone_and_all_else_is_there
                an_empty_payload_is_not_a_missing_one
                a_cancelled_delivery_is_forgotten_by_its_owner
                only_a_pending_delivery_is_cancelled
            ;
            replays:
                a_task_begins_with_all_that_was_accepted_before_it
                a_task_of_every_kind_is_kept
                an_unknown_task_is_missing
                a_replay_makes_settled_deliveries_pending_again
                a_replayed_delivery_keeps_its_history
                a_replay_goes_to_the_end_of_the_line
                a_task_without_a_next_cursor_is_finished
                a_chunk_that_comes_again_changes_nothing
                a_chunk_of_an_old_owner_changes_nothing
                a_chunk_of_an_unknown_task_changes_nothing
            ;
            secrets:
                the_first_secret_signs_from_the_start
                an_old_secret_signs_until_its_grace_ends
                secrets_are_told_newest_first
                a_secret_that_has_expired_does_not_come_back
                too_many_live_secrets_are_refused
                an_unknown_endpoint_has_no_secrets_to_rotate
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
                a_settle_that_comes_again_brings_no_old_running_state_back
                a_message_to_two_endpoints_is_settled_for_each
            ;
            upkeep:
                burying_takes_the_pending_ones_only
                an_endpoint_that_never_ran_has_the_running_state_of_a_new_one
                every_running_state_is_read_as_it_was_written
                running_state_does_not_change_the_revision
                requests_are_numbered_and_kept_in_order_until_consumed
                requests_are_told_to_the_owner_of_their_partition
                a_retry_asked_for_is_due_at_once
                a_retry_asked_for_is_never_later_than_it_was
                a_retry_asked_for_does_not_overtake_in_a_line
                a_retry_asked_for_wakes_nothing_that_is_settled
                sums_add_up
                sums_of_one_batch_add_up_too
                sums_are_told_from_a_minute_up_to_another
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
        assert!(cases > 100, "only {cases} cases were found");
    }
}
