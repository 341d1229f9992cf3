//! Every deployment, approval and blueprint is read as it was written.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use domain::{
    Action, Approval, ApprovalId, ApprovalRecord, ApprovalRule, ApprovalStatus, Blueprint, CommitId, Deployment,
    DeploymentId, DeploymentRecord, DeploymentStatus, HttpCall, IdSeed, InputValue, Origin, Person, Retried, SessionId,
    Stage, StageRun, StageStatus, Step, StepReference, StepRun, StepSource, StepStatus, Ticket, Timestamp, Use, UserId,
    VariableName, VariableValue,
};

const DEPLOYMENT_STATUSES: [DeploymentStatus; 7] = [
    DeploymentStatus::Queued,
    DeploymentStatus::Running,
    DeploymentStatus::AwaitingApproval,
    DeploymentStatus::Cancelling,
    DeploymentStatus::Succeeded,
    DeploymentStatus::Failed,
    DeploymentStatus::Cancelled,
];
const STAGE_STATUSES: [StageStatus; 9] = [
    StageStatus::Pending,
    StageStatus::AwaitingApproval,
    StageStatus::Queued,
    StageStatus::Running,
    StageStatus::Cancelling,
    StageStatus::Succeeded,
    StageStatus::Failed,
    StageStatus::Cancelled,
    StageStatus::Skipped,
];
const STEP_STATUSES: [StepStatus; 6] = [
    StepStatus::Pending,
    StepStatus::Running,
    StepStatus::Succeeded,
    StepStatus::Failed,
    StepStatus::Cancelled,
    StepStatus::Skipped,
];
const APPROVAL_STATUSES: [ApprovalStatus; 4] =
    [ApprovalStatus::Pending, ApprovalStatus::Approved, ApprovalStatus::Rejected, ApprovalStatus::Cancelled];

fn identifier() -> impl Strategy<Value = Identifier> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,62}".prop_map(|text| Identifier::parse(&text).unwrap())
}

fn text() -> impl Strategy<Value = Arc<str>> {
    any::<String>().prop_map(Arc::from)
}

fn seed() -> impl Strategy<Value = IdSeed> {
    any::<[u8; 12]>().prop_map(IdSeed)
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_millis)
}

fn commit() -> impl Strategy<Value = CommitId> {
    "[!-,.-~][!-~]{0,127}".prop_map(|text| CommitId::parse(&text).unwrap())
}

fn person() -> impl Strategy<Value = Person> {
    (seed(), text()).prop_map(|(id, name)| Person { id: UserId(id), name })
}

fn environment() -> impl Strategy<Value = EnvironmentKey> {
    (identifier(), identifier(), identifier()).prop_map(|(organization, pipeline, name)| EnvironmentKey {
        pipeline: PipelineKey { organization, pipeline },
        name,
    })
}

fn session() -> impl Strategy<Value = SessionId> {
    let origin =
        prop_oneof![any::<u64>().prop_map(Origin::Granted), any::<u64>().prop_map(Ticket).prop_map(Origin::Queued)];
    (seed(), origin).prop_map(|(seed, origin)| SessionId { seed, origin })
}

fn approval() -> impl Strategy<Value = Approval> {
    (seed(), select(&APPROVAL_STATUSES[..]), time(), of(time()), of(person()), of(text())).prop_map(
        |(id, status, requested_at, decided_at, decided_by, comment)| Approval {
            id: ApprovalId(id),
            status,
            requested_at,
            decided_at,
            decided_by,
            comment,
        },
    )
}

fn step_run() -> impl Strategy<Value = StepRun> {
    let source = of(source()).prop_map(|source| source.map(Arc::new));
    (identifier(), source, select(&STEP_STATUSES[..]), any::<Option<i32>>(), of(time()), of(time())).prop_map(
        |(name, source, status, exit_code, started_at, finished_at)| StepRun {
            name,
            source,
            status,
            exit_code,
            started_at,
            finished_at,
        },
    )
}

fn reference() -> impl Strategy<Value = StepReference> {
    (identifier(), identifier(), identifier()).prop_map(|(registry, step, version)| StepReference {
        registry,
        step,
        version,
    })
}

fn source() -> impl Strategy<Value = StepSource> {
    (reference(), of(text())).prop_map(|(reference, commit)| StepSource { reference, commit })
}

fn input_value() -> impl Strategy<Value = InputValue> {
    prop_oneof![
        variable_value().prop_map(InputValue::string),
        any::<i64>().prop_map(|number| InputValue::number(&number.to_string()).unwrap()),
        any::<bool>().prop_map(InputValue::boolean),
    ]
}

fn variable_name() -> impl Strategy<Value = VariableName> {
    "[A-KM-Z][A-Z0-9_]{0,20}".prop_map(|text| VariableName::parse(&text).unwrap())
}

fn variable_value() -> impl Strategy<Value = VariableValue> {
    "[ -~]{0,40}".prop_map(|text| VariableValue::parse(&text).unwrap())
}

fn stage_run() -> impl Strategy<Value = StageRun> {
    (identifier(), select(&STAGE_STATUSES[..]), any::<u32>(), of(approval()), vec(step_run(), 0..4)).prop_map(
        |(name, status, attempt, approval, steps)| StageRun {
            name,
            status,
            attempt,
            // The comment is only in the approval's own record.
            approval: approval.map(|approval| Approval { comment: None, ..approval }),
            steps,
        },
    )
}

fn deployment() -> impl Strategy<Value = Deployment> {
    let times = (time(), of(time()), of(time()));
    (seed(), commit(), select(&DEPLOYMENT_STATUSES[..]), times, of(text()), any::<u32>(), any::<bool>()).prop_map(
        |(id, commit, status, (created_at, started_at, finished_at), error, revision, staged)| Deployment {
            id: DeploymentId(id),
            commit,
            status,
            created_at,
            started_at,
            finished_at,
            error,
            revision,
            staged,
            run: None,
        },
    )
}

fn record() -> impl Strategy<Value = DeploymentRecord> {
    let retried = (person(), 0..32_usize).prop_map(|(by, stage)| Retried { by, stage });
    (deployment(), of(session()), any::<u64>(), of(person()), vec(stage_run(), 0..4), of(retried)).prop_map(
        |(deployment, session, fencing_token, user, stages, retried)| DeploymentRecord {
            deployment,
            session,
            fencing_token,
            user,
            stages,
            retried,
        },
    )
}

fn approval_record() -> impl Strategy<Value = ApprovalRecord> {
    (approval(), seed(), of(session()), commit(), identifier(), any::<u32>(), of(person())).prop_map(
        |(approval, deployment, session, commit, stage, attempt, requested_by)| ApprovalRecord {
            approval,
            deployment: DeploymentId(deployment),
            session,
            commit,
            stage,
            attempt,
            requested_by,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let headers = vec((text(), text()), 0..3);
    let call = (text(), text(), headers, of(text()), vec(any::<u16>(), 0..3)).prop_map(
        |(method, url, headers, body, expect_status)| {
            Action::Http(HttpCall { method, url, headers, body, expect_status })
        },
    );
    let uses = (reference(), btree_map(variable_name(), input_value(), 0..3))
        .prop_map(|(reference, with)| Action::Uses(Box::new(Use { reference, with })));
    prop_oneof![vec(text(), 0..4).prop_map(Action::Run), call, uses]
}

fn stage() -> impl Strategy<Value = Stage> {
    let inputs = btree_map(variable_name(), variable_value(), 0..3);
    let source = of(source()).prop_map(|source| source.map(Arc::new));
    let step = (identifier(), action(), inputs, source).prop_map(|(name, action, inputs, source)| Step {
        name,
        action,
        inputs,
        source,
    });
    let rule = prop_oneof![Just(ApprovalRule::Never), Just(ApprovalRule::Always)];
    (identifier(), rule, any::<u32>(), any::<bool>(), vec(step, 0..4)).prop_map(
        |(name, approval, timeout_seconds, idempotent, steps)| Stage {
            name,
            approval,
            timeout_seconds,
            idempotent,
            steps,
        },
    )
}

fn blueprint() -> impl Strategy<Value = Blueprint> {
    (vec(stage(), 0..4), btree_map(variable_name(), variable_value(), 0..4), any::<bool>())
        .prop_map(|(stages, variables, self_approval)| Blueprint { stages, variables, self_approval })
}

proptest! {
    #[test]
    fn a_deployment_is_read_as_it_was_written(environment in environment(), record in record()) {
        let bytes = encode_deployment(&environment, &record);
        let head = decode_deployment_head(&bytes).unwrap();
        prop_assert_eq!((head.id, head.status), (record.deployment.id, record.deployment.status));
        prop_assert_eq!((head.session, head.revision), (record.session, record.deployment.revision));
        prop_assert_eq!(&head.environment, &environment);
        prop_assert_eq!(decode_deployment(&bytes).unwrap(), (environment, record));
    }

    #[test]
    fn an_approval_is_read_as_it_was_written(environment in environment(), record in approval_record()) {
        let bytes = encode_approval(&environment, &record);
        prop_assert_eq!(decode_approval(&bytes).unwrap(), (environment, record));
    }

    #[test]
    fn a_blueprint_is_read_as_it_was_written(blueprint in blueprint()) {
        prop_assert_eq!(decode_blueprint(&encode_blueprint(&blueprint)).unwrap(), blueprint);
    }

    #[test]
    fn the_approvals_of_a_deployment_are_read_as_they_were_written(seeds in vec(seed(), 0..70)) {
        let approvals: Vec<_> = seeds.into_iter().map(ApprovalId).collect();
        prop_assert_eq!(decode_approvals(&encode_approvals(&approvals)).unwrap(), approvals);
    }

    #[test]
    fn no_bytes_panic_whoever_reads_them(bytes in vec(any::<u8>(), 0..200)) {
        let bytes = [vec![1], bytes].concat();
        let _ = (decode_deployment(&bytes), decode_approval(&bytes), decode_blueprint(&bytes), decode_approvals(&bytes));
    }
}
