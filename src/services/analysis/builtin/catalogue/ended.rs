//! Ends that something outside of the program decided: machines that go away, signals, persons.

super::signature::signatures! {
    Interrupted 95
        hints "received a shutdown signal", "lost communication with the server", "runner system failure", "agent was lost", "agent lost",
            "went offline", "was preempted", "spot instance", "been evicted", "node is shutting down", "is not coming back", "been removed or offline",
            "runner has stopped", "hearing from agent", "runner lost", "channelclosedexception", "channel is already closed", "termination of the channel",
            "marked offline", "agent was marked", "agent disconnected", "agent has been lost", "node was terminated", "instance has been terminated",
            "being preempted", "the worker was lost", "worker was lost", "host is being", "cannot contact ", "node shutdown", "agent stopped responding"
        pattern r"runner has received a shutdown signal|lost communication with the server|runner system failure|(?:agent|node|runner|slave|worker)\b (?:\S+ )?(?:was lost|lost\b|went offline|has stopped|is offline|disconnected|has been lost|was terminated|was marked)|stopped hearing from agent|(?:was|is being) preempted|spot instance .{0,40}(?:terminat|interrupt|reclaim)|pod .{0,60}evicted|assuming it is not coming back|removed or offline for|ChannelClosedException|channel is already closed|Unexpected termination of the channel|Cannot contact \S+: (?:java|hudson)|agent stopped responding|node is shutting down|(?:imminent|in response to) node shutdown"
        cause "the machine that ran it went away"
        fix "run it again; if it happens often, look at the memory of the machine at that time, and whether it may be taken away (spot machines, scaling down)"
        like "##[error]The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled.",
            "The hosted runner: GitHub Actions 14 lost communication with the server.",
            "##[error]We stopped hearing from agent agent-4. Verify the agent machine is running and has a healthy network connection.",
            "Slave went offline during the build",
            "FATAL: hudson.remoting.ChannelClosedException: channel is already closed";
    Killed 84
        hints "] terminated", "] hangup", "] killed", "code=killed", "signal: killed", "signal: terminated", "signal: hangup", "sighup"
        pattern r"^g?make(?:\[\d+\])?: \*\*\* \[[^\]]*\] (?:Terminated|Hangup|Killed)|code=killed, status=(?:9/KILL|15/TERM|1/HUP)|signal: (?:killed|terminated|hangup)\b|(?:received|got|by) SIGHUP\b"
        cause "a program was ended from outside by a signal"
        fix "find out what ended it: a time limit, the out-of-memory killer, a restart of the machine or another step"
        like "make: *** [Makefile:2: sync] Terminated",
            "shop.service: Main process exited, code=killed, status=9/KILL";
    Killed 72
        hints "killed"
        pattern r"^(?:@?[\w./-]+: )Killed\s*$"
        cause "a program was killed from outside, most often by the kernel since memory ran out"
        fix "check the kernel's log for the out-of-memory killer; give it more memory, or make it use less"
        like "@packages/net-stubbing: Killed";
    Crashed 90
        hints "code=killed", "code=dumped", "abnormal termination"
        pattern r"code=(?:killed|dumped), status=(?P<signal>11/SEGV|6/ABRT|7/BUS|4/ILL|8/FPE|5/TRAP|31/SYS)"
        cause "the service crashed in its own code ({signal})"
        fix "look at its core dump (`coredumpctl`), and at what its log says before"
        like "pleroma.service: Main process exited, code=killed, status=11/SEGV";
    Unhealthy 91
        hints "entered fatal state", "start request repeated too quickly", "too many start retries", "exited too quickly", "start-limit-hit"
        pattern r"entered FATAL state|start request repeated too quickly|too many start retries|exited too quickly|start-limit-hit"
        cause "the service does not stay up: it ends right after each start"
        fix "check the log of the service itself for why it ends"
        like "gave up: worker entered FATAL state, too many start retries too quickly",
            "shop.service: Start request repeated too quickly.";
    Cancelled 90
        hints "interrupt received", "interrupted by user", "keyboardinterrupt", "] interrupt", "due to user request", "ora-01013", "cancelled by the user",
            "canceled by the user", "was superseded", "superseded by", "cancelled because a newer", "been canceled", "user cancelled", "user canceled", "user aborted"
        pattern r"^\s*Interrupt received\.|Two interrupts received|interrupted by user|^KeyboardInterrupt\b|^g?make(?:\[\d+\])?: \*\*\* \[[^\]]*\] Interrupt|canceling statement due to user request|ORA-01013|cancell?ed by the user|superseded by (?:a newer|another|build|run|pipeline|commit)|cancell?ed because a newer|(?:job|build|run|workflow|pipeline|deployment|task) has been cancell?ed|user (?:cancell?ed|aborted)"
        cause "somebody, or a newer run, stopped it"
        fix "nothing is broken: run it again if it is still wanted"
        like "Interrupt received.",
            "ERROR:  canceling statement due to user request";
    Rejected 90
        hints "apply cancelled", "destroy cancelled", "request denied. closing", "abort.", "was rejected by", "approval was denied", "approval denied", "has been rejected",
            "approval rejected", "was declined", "not approved", "rejected by", "confirmation declined", "update declined", "aborted by the user", "confirmation declined"
        pattern r"^\s*(?:Apply|Destroy) cancelled\.|Request denied\. Closing issue|^Abort\.\s*$|(?:deployment|release|stage|change|approval|request|gate|plan|job)\b.{0,40}\b(?:was|has been|is) (?:rejected|declined|denied|not approved)(?: by\b|\.|:|$)|approval (?:was )?(?:denied|rejected|declined)|[Cc]onfirmation declined|(?:deployment|release|review|request|change)\w* rejected by"
        cause "a person declined it"
        fix "agree with the person who declined it on the necessary changes, then run it again"
        like "Apply cancelled.",
            "Request denied. Closing issue and failing workflow.",
            "Abort.",
            "The deployment was rejected by release-manager.";
}
