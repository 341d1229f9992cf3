//! Checks a suggested patch before it is stored: it must be a unified diff of text files inside the repository.

use super::engine::PATCH_BYTES_MAX;

/// The error describes the fault of the patch.
pub fn check(patch: &str) -> Result<(), &'static str> {
    if patch.len() > PATCH_BYTES_MAX {
        return Err("its patch is too large");
    }
    let mut lines = patch.lines().peekable();
    let mut files = 0;
    while let Some(line) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            let new =
                lines.next().and_then(|line| line.strip_prefix("+++ ")).ok_or("its patch has no new file name")?;
            check_names(old, new)?;
            let mut hunks = 0;
            while let Some(header) = lines.next_if(|line| line.starts_with("@@ ")) {
                skip_hunk(header, &mut lines)?;
                lines.next_if(|line| line.starts_with("\\ No newline"));
                hunks += 1;
            }
            if hunks == 0 {
                return Err("its patch names a file without changing it");
            }
            files += 1;
        } else if !is_preamble(line)? {
            return Err("its patch is not a unified diff");
        }
    }
    if files == 0 { Err("its patch changes nothing") } else { Ok(()) }
}

/// Lines that git writes before the file names. A patch that does more than change text is refused.
fn is_preamble(line: &str) -> Result<bool, &'static str> {
    if let Some(names) = line.strip_prefix("diff --git ") {
        let (old, new) = names.split_once(' ').ok_or("its patch has no file names")?;
        check_names(old, new)?;
        return Ok(true);
    }
    let is_plain = |mode: &str| matches!(mode, "100644" | "100755");
    for prefix in ["new file mode ", "deleted file mode "] {
        if let Some(mode) = line.strip_prefix(prefix) {
            return if is_plain(mode) { Ok(true) } else { Err("its patch creates something other than a plain file") };
        }
    }
    Ok(line.is_empty() || line.starts_with("index "))
}

fn check_names(old: &str, new: &str) -> Result<(), &'static str> {
    const NOTHING: &str = "/dev/null";
    let old = (old != NOTHING).then_some(old.strip_prefix("a/").unwrap_or(old));
    let new = (new != NOTHING).then_some(new.strip_prefix("b/").unwrap_or(new));
    match (old, new) {
        (Some(old), Some(new)) if old != new => Err("its patch renames a file"),
        (None, None) => Err("its patch names no file"),
        (old, new) => {
            old.or(new).filter(|path| is_below_root(path)).map(drop).ok_or("its patch leads out of the repository")
        }
    }
}

/// A relative path without `..` that is not one of git's own files.
fn is_below_root(path: &str) -> bool {
    let is_sane = |part: &str| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git");
    let is_plain = |c: char| !c.is_control() && !matches!(c, '\\' | '"' | ':');
    path.split('/').all(is_sane) && path.chars().all(is_plain)
}

/// Skips the lines of a hunk, whose number is in its header.
fn skip_hunk<'a>(header: &str, lines: &mut impl Iterator<Item = &'a str>) -> Result<(), &'static str> {
    const BROKEN: &str = "its patch has a hunk with a wrong length";
    let (mut old, mut new) = hunk_lengths(header).ok_or("its patch has a hunk without line numbers")?;
    while old > 0 || new > 0 {
        let line = lines.next().ok_or(BROKEN)?;
        match line.as_bytes().first() {
            Some(b' ') | None => (old, new) = (old.checked_sub(1).ok_or(BROKEN)?, new.checked_sub(1).ok_or(BROKEN)?),
            Some(b'-') => old = old.checked_sub(1).ok_or(BROKEN)?,
            Some(b'+') => new = new.checked_sub(1).ok_or(BROKEN)?,
            Some(b'\\') => {}
            Some(_) => return Err(BROKEN),
        }
    }
    Ok(())
}

/// `@@ -12,3 +12,4 @@`: the number of lines of the old and of the new file.
fn hunk_lengths(header: &str) -> Option<(usize, usize)> {
    let (ranges, _) = header.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let length = |range: &str| match range.split_once(',') {
        Some((start, length)) => start.parse::<usize>().and(length.parse()).ok(),
        None => range.parse::<usize>().map(|_| 1).ok(),
    };
    Some((length(old)?, length(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNK: &str = "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n";

    #[test]
    fn diffs_written_by_git_are_accepted() {
        let changed =
            format!("diff --git a/src/x.sh b/src/x.sh\nindex 1..2 100644\n--- a/src/x.sh\n+++ b/src/x.sh\n{HUNK}");
        assert_eq!(check(&changed), Ok(()));
        let made = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        assert_eq!(check(made), Ok(()));
    }

    #[test]
    fn patches_that_leave_the_repository_or_are_not_text_are_refused() {
        for path in
            ["../x", "a/../../x", "/etc/passwd", ".git/config", "x/.GIT/hooks/pre-push", "a//b", "./x", "c:x", "\"q\""]
        {
            assert!(check(&format!("--- a/{path}\n+++ b/{path}\n{HUNK}")).is_err(), "{path}");
        }
        for patch in [
            String::new(),
            "please change the file".to_owned(),
            format!("--- a/x\n+++ b/y\n{HUNK}"),
            "--- a/x\n+++ b/x\n".to_owned(),
            "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n".to_owned(),
            format!("new file mode 120000\n--- /dev/null\n+++ b/x\n{HUNK}"),
            format!("rename from x\n--- a/x\n+++ b/x\n{HUNK}"),
            format!("--- a/x\n+++ b/x\n{HUNK}{}", "\n".repeat(PATCH_BYTES_MAX)),
        ] {
            assert!(check(&patch).is_err(), "{patch}");
        }
    }
}
