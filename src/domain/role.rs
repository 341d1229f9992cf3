//! The four roles, in rising order: each may do all that the one before it may.

use super::named::named_enum;

named_enum! {
    pub enum Role {
        Viewer = "viewer",
        Developer = "developer",
        Maintainer = "maintainer",
        Admin = "admin",
    }
}
