//! The layers that may be missing on a machine, and what to do about it.

use rustix::process::getuid;

/// A part of the confinement that not every machine has. Dropped privileges and limits are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    Namespaces,
    Users,
    FileRules,
    CallFilter,
    /// Nothing of its own: whether the layers before it keep a step from the sockets of others.
    Sockets,
    ControlGroups,
}

impl Layer {
    /// Each may need those before it.
    pub(super) const ALL: [Layer; 6] =
        [Layer::Namespaces, Layer::Users, Layer::FileRules, Layer::CallFilter, Layer::Sockets, Layer::ControlGroups];

    pub const fn name(self) -> &'static str {
        match self {
            Layer::Namespaces => "namespaces",
            Layer::Users => "own users",
            Layer::FileRules => "Landlock",
            Layer::CallFilter => "system call filter",
            Layer::Sockets => "closed sockets",
            Layer::ControlGroups => "control groups",
        }
    }

    /// What an operator can do to have it.
    pub const fn advice(self) -> &'static str {
        match self {
            Layer::Namespaces => {
                "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns), or in a container CAP_SYS_ADMIN and an unmasked /proc"
            }
            Layer::Users => {
                "start the server as root with CAP_SETUID, CAP_SETGID and CAP_CHOWN, and choose a runner.user_range that \
                 exists on this machine"
            }
            Layer::FileRules => "use Linux 5.13 or later with Landlock among its security modules (`lsm=landlock,…`)",
            Layer::CallFilter => "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER) on x86-64, ARM64 or RISC-V",
            Layer::Sockets => {
                "sockets in directories need namespaces, or Linux 7.1 or later with Landlock; abstract ones need Linux 6.12 or \
                 later with Landlock, or runner.network = \"none\"; those that are named must move to a directory that steps do \
                 not see, such as /run, or be closed to other users"
            }
            Layer::ControlGroups => "start the server as root, or with systemd's `Delegate=yes`",
        }
    }
}

/// The layers that work on this machine, and those that do not, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    pub held: Vec<Layer>,
    pub missing: Vec<(Layer, String)>,
}

impl Layers {
    pub fn has(&self, layer: Layer) -> bool {
        self.held.contains(&layer)
    }

    /// Those without which one organization's steps are not certainly kept from another's. Users of their own are what
    /// only root can give; control groups only limit.
    pub fn lacking(&self) -> impl Iterator<Item = &(Layer, String)> {
        self.missing.iter().filter(|(layer, _)| match layer {
            Layer::Namespaces | Layer::FileRules | Layer::CallFilter | Layer::Sockets => true,
            Layer::Users => getuid().is_root(),
            Layer::ControlGroups => false,
        })
    }
}
