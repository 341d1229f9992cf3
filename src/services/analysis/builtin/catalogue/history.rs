//! Versions of files: git, patches, and conflicts.

super::signature::signatures! {
    MergeConflict 95
        hints "conflict ("
        pattern r"CONFLICT \((?P<kind>[^)]+)\): (?:Merge conflict in )?(?P<file>\S+)"
        cause "git cannot merge: {file} ({kind})"
        fix "merge or rebase on your machine, resolve {file}, and deploy the result"
        like "CONFLICT (content): Merge conflict in src/app.ts";
    MergeConflict 88
        hints "automatic merge failed", "could not apply", "needs merge", "unmerged files", "merge conflict",
            "fix conflicts", "would be overwritten by"
        pattern r"Automatic merge failed|could not apply [0-9a-f]{7,}|needs merge|unmerged files|fix conflicts and|would be overwritten by (?:merge|checkout)|merge conflicts? (?:in|detected|between|found)"
        cause "git cannot merge two histories automatically"
        fix "merge or rebase on your machine, resolve the conflicts, and deploy the result"
        like "error: could not apply 9be17d0... add retry",
            "error: Your local changes to the following files would be overwritten by checkout:";
    MergeConflict 92
        hints "[rejected]", "[remote rejected]"
        pattern r"! \[(?:remote )?rejected\] +(?P<what>\S+ -> \S+) \((?P<why>non-fast-forward|fetch first|stale info|needs force|would clobber existing tag|failed to update ref|cannot lock ref[^)]*|incorrect old value[^)]*)\)"
        cause "the push of {what} was rejected: {why}"
        fix "fetch and rebase before pushing, and try again if somebody else was faster"
        like " ! [rejected]        main -> main (non-fast-forward)";
    MergeConflict 66
        of Git
        hints "failed to push some refs", "[remote rejected]"
        pattern r"failed to push some refs|! \[remote rejected\]"
        cause "a push was rejected"
        fix "see the lines above for the reason: a newer commit, a rule of the repository, or a hook"
        like "error: failed to push some refs to 'origin'";
    MergeConflict 84
        hints "non-fast-forward", "not possible to fast-forward", "divergent branches",
            "diverging branches", "unrelated histories"
        pattern r"non-fast-forward|not possible to fast-forward|(?:divergent|diverging) branches|unrelated histories"
        cause "the branch has diverged"
        fix "fetch and rebase (or merge) first, then retry"
        like "fatal: Not possible to fast-forward, aborting.";
    MergeConflict 88
        hints "patch does not apply", "patch failed", "hunk #", "hunk failed", "hunks failed"
        pattern r"patch does not apply|patch failed: (?P<file>[^\s:]+)|Hunk #\d+ FAILED|hunks? FAILED"
        cause "a patch does not match the files: {file|see the line}"
        fix "recreate the patch against the deployed version"
        like "error: patch failed: src/app.c:40",
            "Hunk #2 FAILED at 118.";
    MergeConflict 86
        hints "<<<<<<<", ">>>>>>>"
        pattern r"(?:<<<<<<< (?:HEAD|ours|Updated)|>>>>>>> \S+)"
        cause "a file still contains conflict markers"
        fix "resolve the conflict in that file and commit it"
        like "src/app.js:14 <<<<<<< HEAD";

    MissingFile 88
        hints "couldn't find remote ref", "not our ref", "reference is not a tree", "did not match any",
            "unknown revision or path", "remote branch", "bad object", "not a valid object name", "bad revision"
        pattern r"couldn't find remote ref (?P<ref>\S+)|not our ref (?P<commit>\w+)|reference is not a tree: (?P<tree>\w+)|pathspec '(?P<path>[^']+)' did not match|ambiguous argument '(?P<argument>[^']+)'|Remote branch (?P<branch>\S+) not found|bad object \w+|Not a valid object name|bad revision"
        cause "the repository has no {ref/commit/tree/path/argument/branch|such commit or branch}"
        fix "check the commit or branch: it was not pushed, was deleted or rebased away, or the clone is too shallow to have it"
        like "fatal: couldn't find remote ref feature/x",
            "fatal: reference is not a tree: c0ffee1",
            "error: pathspec 'review-9' did not match any file(s) known to git";
    MissingFile 82
        hints "not a git repository", "does not appear to be a git repository", "repository not found"
        pattern r"not a git repository|does not appear to be a git repository|repository not found|repository '[^']+' not found"
        cause "there is no git repository where one is expected"
        fix "clone it in an earlier step, check its URL, and that the step's credentials have access to it"
        like "fatal: not a git repository (or any of the parent directories): .git",
            "remote: Repository not found.";
    MergeConflict 93
        hints "the object has been modified", "creates new remote head", "unresolved merge conflicts", "e155011", "e160024", "e170004", "summary of conflicts",
            "would fork", "branches have diverged", "euncommit", "remains in conflict"
        pattern r"the object has been modified; please apply|push creates new remote head|unresolved merge conflicts|E155011|E160024|E170004|Summary of conflicts|branches have diverged|\bEUNCOMMIT\b|remains in conflict"
        cause "somebody else has changed the same thing in the meantime"
        fix "take over the newer state (pull, merge, or read the object again), and repeat"
        like "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; please apply your changes to the latest version and try again",
            "abort: push creates new remote head 5ff04cc11503",
            "svn: E155011: File '/srv/work/a.txt' is out of date";
}
