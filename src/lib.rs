//! Lockkeeper hands out ephemeral environments to CI fleets: durable locks over HTTP, one actor per environment.
//! `ARCHITECTURE.md` has the map, the glossary and three walks through the code. Without the feature `server` there is the
//! client alone.
//!
//! What must never happen, and the tests that guard it:
//!
//! 1. Two active sessions in one environment: `domain::properties::no_script_of_commands_breaks_an_invariant`,
//!    `domain::simulation::whenever_the_server_dies_no_lock_is_held_twice_and_nobody_is_forgotten`, `tests/faults/crowds.rs`.
//! 2. A fencing token that repeats or falls, through restarts: the same, and
//!    `tests/faults/durability.rs::nothing_acknowledged_is_lost_when_the_server_is_killed_again_and_again`.
//!    After a restore: `tests/faults/backup/fencing.rs`.
//! 3. An acknowledged success that is lost: the same, and `store::log::power_loss`; on a full disk:
//!    `tests/faults/durability/full_disk.rs`. On an engine that several machines
//!    share: `store::engine_store::tests::in_memory::no_crash_and_no_lost_answer_loses_or_reorders_a_batch`,
//!    `store::engine_store::tests::on_etcd`, and with whole nodes that are killed, frozen and cut off
//!    `tests/faults/cluster.rs`. Moved into a cluster and out of it: `moving::tests::wherever_an_import_is_killed_the_cluster_is_not_whole_and_the_next_one_makes_it_so`,
//!    `tests/faults/cluster/moving.rs`.
//! 4. A reader that sees something which is later lost: `locks::tests::nobody_is_shown_or_told_what_is_not_yet_durable`,
//!    `locks::tests::session_listing`.
//! 5. A lock granted to a client that is gone: `locks::tests::who_has_given_up_is_granted_nothing`,
//!    `locks::tests::queue::a_grant_whose_client_goes_before_it_is_durable_passes_to_the_next`, and over sockets
//!    `tests/faults/crowds/cut_off.rs`; through another node:
//!    `tests/faults/cluster.rs::a_lock_whose_client_has_gone_when_it_comes_through_another_node_is_taken_back`.
//! 6. Two deployments running in one environment: `domain::invariants::check`, in every property test;
//!    `domain::properties::deploying::never_do_two_deployments_run_and_every_one_comes_to_an_end`, with a simulated runner;
//!    and, with real processes, `tests/deployments/cancelling.rs`, `tests/deployments/restarting.rs`, `tests/deployments/runner/trees.rs`;
//!    on a machine that may have lost the environment to another: `tests/deployments/runner/leases.rs`,
//!    `tests/faults/cluster/steps.rs`.
//! 7. One organization seeing another: `tests/api/access.rs::another_organization_looks_like_one_that_does_not_exist`; a removed
//!    member doing, seeing or getting anything more: `tests/api/removal.rs`; a step that reaches the server or another
//!    organization: `tests/deployments/isolation/attacks.rs`.
//! 8. A secret's value in a log, an answer or an event: `tests/api/operating.rs::no_token_reaches_the_log`,
//!    `tests/api/secrets.rs::a_value_is_in_no_log_and_no_file`, printed by steps: `tests/deployments/secrets.rs` and, in all
//!    its encodings, `runner::mask::tests::decoding::real_programs_write_nothing_that_is_shown`,
//!    `runner::mask::tests::no_secret_is_shown_in_whatever_pieces_it_comes`; in the store:
//!    `secrets::tests::sealing::no_value_and_no_key_lies_in_the_store`; of a webhook:
//!    `tests/api/webhooks/managing.rs::a_secret_is_shown_once_and_lies_nowhere_in_the_clear`; sent to a model or pushed to a repository:
//!    `tests/deployments/analyses/model.rs`, `tests/deployments/analysis_answers.rs`, `tests/deployments/fixes/pushing.rs`.
//! 9. An input that causes a 500: `tests/api/bad_input.rs`, and schemathesis over the OpenAPI document in `tests/run`.
//! 10. A request executed twice under one `Idempotency-Key`:
//!     `idempotency::tests::a_request_is_never_executed_twice_around_the_moment_it_becomes_durable`; because of the keys of
//!     another organization: `idempotency::tests::an_organization_that_records_many_answers_drops_none_of_another`.
//! 11. A step that is taken away from a pipeline that uses it:
//!     `registries::tests::a_pipeline_whose_caller_went_away_keeps_its_registry`, `tests/api/registries/used.rs`.
//! 12. An event that a webhook wants and never gets, whenever the server dies:
//!     `webhooks::tests::capturing::whenever_the_server_dies_an_event_is_captured_once`, and with a real receiver
//!     `tests/api/webhooks/restarting.rs`.
//! 13. A connection to a private address for a tenant, by a webhook, an HTTP step or git, unless the operator allows it:
//!     `outbound::address::tests::only_addresses_of_the_internet_at_large_are_public`,
//!     `outbound::policy::tests::a_name_is_judged_by_what_it_resolves_to`,
//!     `tests/api/webhooks/addresses.rs`, and with redirects and names that change `tests/deployments/outgoing.rs`.
//! 14. An event that is missing, changed or moved without being noticed: `tests/api/events/tampering.rs`, `tests/api/events/verifying.rs`, and
//!     `store::journal::tests::whatever_part_of_the_pages_reached_the_database_replaying_makes_the_same_ones_again`; or rewritten by
//!     somebody without the master key: `events::tests::sealing`. A security event pushed out by others: `events::tests::archiving`.
//! 15. A sign-in that a page of another site uses: `http::own_page::tests::only_our_own_pages_are_our_own`,
//!     `tests/api/sign_in/cross_site.rs`; that outlives its password, its token, its member or its time:
//!     `auth::tests::sign_ins`, `tests/api/sign_in/ending.rs`; an invitation that works twice:
//!     `tests/api/sign_in/invitations.rs`; an organization without an admin who can act: `tests/api/members.rs`.
//! 16. A token for a job that no rule trusts, by a forged or foreign identity token or one used too often:
//!     `tests/api/identities/refusing.rs`, `tests/api/identities/replaying.rs`.
//! 17. A command under `lockkeeper run` that goes on without its lock, or counts as successful without it: `tests/client/run/losing.rs`,
//!     `tests/client/run/signals.rs::a_killed_client_leaves_no_command_and_no_lock`, and, many at once, `tests/client/run/crowd.rs`.

#[cfg(not(feature = "server"))]
pub use lockkeeper_client::run_alone as run;
#[cfg(feature = "server")]
pub use lockkeeper_server::run;
