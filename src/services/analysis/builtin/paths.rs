//! Paths outside of the working directory of a step: nobody is advised to edit what lies there.

use regex::bytes::Captures;

use crate::analysis::Category;

/// Where systems and tools keep what is theirs.
const OF_THE_SYSTEM: &[&str] = &[
    "/usr/",
    "/etc/",
    "/lib/",
    "/lib64/",
    "/opt/",
    "/var/",
    "/bin/",
    "/sbin/",
    "/root/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/boot/",
    "/run/",
    "/nix/",
    "/Library/",
    "/System/",
    "/Applications/",
    "C:\\Program Files",
    "C:\\Windows",
    "/rustc/",
    "/tmp/pip-",
];
/// Packages of others, wherever they are.
const OF_PACKAGES: &[&str] = &[
    "node_modules/",
    "site-packages/",
    "dist-packages/",
    ".cargo/registry/",
    ".cargo/git/",
    "/go/pkg/mod/",
    "vendor/bundle/",
    ".m2/repository/",
    ".gradle/caches/",
    ".rustup/",
    ".pyenv/",
    ".nvm/",
    "hostedtoolcache/",
    "/gems/",
    ".nuget/packages/",
    "/.cache/",
    "~/.",
];
/// Working directories of CIs may lie anywhere.
const OF_WORK: &[&str] = &["/workspace/", "/work/", "/_work/", "/builds/", "/agent/build/", "/checkout/"];

/// Advice instead of the signature's own if what it names lies outside of the commit.
pub(super) fn advice(category: Category, fix: &str, captures: Option<&Captures<'_>>) -> Option<String> {
    let path = outside(fix, captures?)?;
    if matches!(category, Category::PermissionDenied | Category::MissingFile) {
        return Some(format!(
            "`{path}` lies outside of the step's working directory: use the working directory instead, or have the image or machine provide it"
        ));
    }
    let is_code = matches!(
        category,
        Category::Compile | Category::Syntax | Category::Lint | Category::TestFailure | Category::Crashed
    );
    is_code.then(|| {
        format!(
            "`{path}` is not part of the commit: change the file it is made from, or pin or update the package or image it belongs to; do not edit it where it lies"
        )
    })
}

/// The first path that the advice names and that lies outside.
fn outside(fix: &str, captures: &Captures<'_>) -> Option<String> {
    let names = fix.split('{').skip(1).filter_map(|rest| rest.split(['}', '|']).next());
    let mut values = names.flat_map(|names| names.split('/')).filter_map(|name| captures.name(name));
    values.find_map(|value| {
        let path = std::str::from_utf8(value.as_bytes()).ok()?;
        is_outside(path).then(|| path.chars().filter(|c| !c.is_control() && *c != '`').take(120).collect())
    })
}

fn is_outside(path: &str) -> bool {
    let of_packages = OF_PACKAGES.iter().any(|part| path.contains(part));
    let of_the_system = OF_THE_SYSTEM.iter().any(|prefix| path.starts_with(prefix));
    of_packages || (of_the_system && !OF_WORK.iter().any(|part| path.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_system_and_of_packages_lie_outside() {
        for path in ["/etc/nginx/nginx.conf", "/usr/lib/python3/dist-packages/x.py", "node_modules/a/b.ts", "~/.npmrc"]
        {
            assert!(is_outside(path), "{path}");
        }
        for path in
            ["src/a.rs", "/srv/work/src/a.rs", "/builds/acme/web/a.c", "/var/lib/jenkins/workspace/web/a.c", "a"]
        {
            assert!(!is_outside(path), "{path}");
        }
    }
}
