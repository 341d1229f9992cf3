//! A member of an organization.

use super::form;
use domain::{Email, Identifier, Role};

form! {
    /// A new member.
    #[schema("examples": [{ "name": "example", "role": "viewer", "email": "example@acme.example" }])]
    pub struct MemberForm as "MemberRequest" {
        /// Unique in the organization.
        #[schema("examples": ["ana"])]
        required name: Identifier,
        /// What the member may do.
        required role: Role,
        /// Where to reach them, for people; the server sends nothing.
        nullable email: Email,
    }
    unique name;
}
