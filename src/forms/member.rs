//! A member of an organization.

use super::form;
use crate::domain::{Identifier, Role};

form! {
    /// A new member.
    #[schema("examples": [{ "name": "example", "role": "viewer" }])]
    pub struct MemberForm as "MemberRequest" {
        /// Unique in the organization.
        #[schema("examples": ["ana"])]
        required name: Identifier,
        /// What the member may do.
        required role: Role,
    }
    unique name;
}
