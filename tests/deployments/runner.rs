//! Real steps: their input and output, how they end, and that no process of them is left.

mod ends;
mod harness;
mod leases;
mod requests;
mod trees;
mod turns;

use domain::{StageEnd, StepStatus};
use harness::{FOR_EVER, Harness, PATH, Report, SHORT, deployment, environment, failed, job, log, run, sh};

fn statuses(steps: &[domain::StepRun]) -> Vec<(StepStatus, Option<i32>)> {
    steps.iter().map(|step| (step.status, step.exit_code)).collect()
}

#[tokio::test]
async fn steps_run_in_order_and_their_output_is_logged_as_written() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("echo out; echo err >&2; printf 'no end'"), sh("echo; echo second")]));
    assert_eq!(harness.hear().await, Report::Begun(deployment(1)));
    for expected in [[StepStatus::Running, StepStatus::Pending], [StepStatus::Succeeded, StepStatus::Running]] {
        let Report::Progress(_, steps) = harness.hear().await else { panic!("no progress") };
        assert_eq!(steps.iter().map(|step| step.status).collect::<Vec<_>>(), expected);
    }
    let (_, end, steps) = harness.end().await;
    assert_eq!(end, StageEnd::Succeeded);
    assert_eq!(statuses(&steps), [(StepStatus::Succeeded, Some(0)), (StepStatus::Succeeded, Some(0))]);
    assert!(steps.iter().all(|step| step.started_at.is_some() && step.finished_at.is_some()));
    assert_eq!(harness.text(1), "out\nerr\nno end\nsecond\n");
    let last = harness.logs.read(&log(1), 3).next_line().unwrap().unwrap();
    let section = last.section.unwrap();
    assert_eq!((&*section.stage, &*section.step, section.attempt), ("build", "step-2", 1));
}

#[tokio::test]
async fn a_step_sees_exactly_what_it_should() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[
        ("COLOUR", "red", false),
        ("COLOUR", "blue", false),
        ("LOCKKEEPER_DEPLOYMENT", "x", false),
    ]);
    harness.run(job(1, vec![run(&["/usr/bin/env"])])).await;
    let text = harness.text(1);
    let mut seen = text.lines().collect::<Vec<_>>();
    seen.sort_unstable();
    let [id, session, path] = [deployment(1).to_string(), format!("ses_{}7", "01".repeat(12)), PATH.to_owned()];
    let expected = [
        "COLOUR=blue".to_owned(),
        "LOCKKEEPER_COMMIT=c0ffee1".to_owned(),
        format!("LOCKKEEPER_DEPLOYMENT={id}"),
        "LOCKKEEPER_ENVIRONMENT=review-1".to_owned(),
        "LOCKKEEPER_FENCING_TOKEN=7".to_owned(),
        "LOCKKEEPER_ORGANIZATION=acme".to_owned(),
        "LOCKKEEPER_PIPELINE=web".to_owned(),
        format!("LOCKKEEPER_SESSION={session}"),
        "LOCKKEEPER_STAGE=build".to_owned(),
        format!("PATH={path}"),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_deployment_keeps_its_working_directory_until_it_is_forgotten() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.run(job(1, vec![sh("echo built > artifact")])).await;
    let mut again = job(1, vec![sh("cat artifact; stat -c %a .")]);
    again.order.attempt = 2;
    harness.run(again).await;
    assert_eq!(harness.text(1), "built\n700\n");
    harness.run(job(2, vec![sh("cat artifact")])).await;
    harness.runner.remove_work_dirs(|kept| kept == deployment(2));
    let left = std::fs::read_dir(&harness.work_dir).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [deployment(2).to_string().as_str()]);
}

#[tokio::test]
async fn a_secret_is_nowhere_however_a_step_writes_it() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("TOKEN", "hunter2!and-more", true), ("PATH", PATH, false)]);
    let script = r#"
        echo "whole: $TOKEN"
        printf 'hun'; sleep 0.3; printf 'ter2!'; sleep 0.3; echo 'and-more'
        printf 'user:%s' "$TOKEN" | base64
        printf '%050d%s' 0 "$TOKEN" | base64
    "#;
    harness.run(job(1, vec![sh(script)])).await;
    let text = harness.text(1);
    let zeros = "MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD";
    // The character with the first bits of the secret is masked too.
    assert_eq!(text, format!("whole: ***\n***\ndXNlcj***\n{zeros}***\n"));
    let (end, _) = harness.run(job(2, vec![run(&["/nowhere/hunter2!and-more"])])).await;
    assert_eq!(end, failed("step `step-1` could not be started: the program `/nowhere/***` was not found"));
    assert!(!harness.text(2).contains("hunter2"));
}

#[tokio::test]
async fn of_a_flood_of_output_the_beginning_and_the_end_are_kept() {
    let mut harness = Harness::with(1, FOR_EVER, 1 << 20);
    let (end, _) = harness.run(job(1, vec![sh("yes 0123456789 | head -c 100000000; echo; echo the end")])).await;
    assert_eq!(end, StageEnd::Succeeded);
    let text = harness.text(1);
    assert!(text.len() < (1 << 20) + 100, "{} bytes are kept", text.len());
    assert!(text.starts_with("0123456789\n0123456789\n") && text.ends_with("\nthe end\n"));
    assert!(text.contains(" bytes left out …\n"));
}

#[tokio::test]
async fn who_follows_sees_a_prompt_that_ends_no_line() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("printf 'Continue? '; exec sleep 1000")]));
    let mut watch = harness.logs.watch(deployment(1));
    while !harness.text(1).contains("Continue? ") {
        harness::within_reason(watch.changed()).await.unwrap();
    }
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
    assert_eq!(harness.text(1), "Continue? \nlockkeeper: terminated: it was cancelled\n");
}

#[tokio::test]
async fn a_stage_that_is_no_longer_wanted_does_not_run() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.wanted.send_replace(Some(false));
    harness.runner.start(job(1, vec![sh("echo ran")]));
    assert_eq!(harness.hear().await, Report::Begun(deployment(1)));
    harness.runner.shut_down(SHORT).await;
    assert!(harness.reports.try_recv().is_err());
    assert_eq!(harness.text(1), "");
}

#[tokio::test]
async fn a_stage_whose_variables_cannot_be_had_fails_with_the_reason() {
    let mut harness = Harness::new(1, FOR_EVER);
    *harness.host.variables.lock().unwrap() = Box::new(|| Err("the secret `KEY` cannot be opened".to_owned()));
    let (end, steps) = harness.run(job(1, vec![sh("echo ran")])).await;
    assert_eq!(end, failed("the secret `KEY` cannot be opened"));
    assert_eq!(statuses(&steps), [(StepStatus::Skipped, None)]);
}

#[tokio::test]
async fn a_fault_of_our_own_is_reported_as_an_end() {
    let mut harness = Harness::new(1, FOR_EVER);
    *harness.host.variables.lock().unwrap() = Box::new(|| panic!("on purpose"));
    harness.runner.start(job(1, vec![sh("echo ran")]));
    let (_, end, steps) = harness.end().await;
    assert!(matches!(end, StageEnd::Failed(_)));
    assert_eq!(statuses(&steps), [(StepStatus::Skipped, None)]);
}
