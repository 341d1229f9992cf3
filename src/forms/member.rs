//! A member of an organization.

use super::form;
use crate::domain::{Identifier, Role};

form! {
    pub struct MemberForm as "MemberRequest" {
        #[schema("examples": ["ana"])]
        required name: Identifier,
        required role: Role,
    }
    unique name;
}
