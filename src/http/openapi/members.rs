//! The operations on members.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use super::operation::Operation;
use crate::domain::Role;
use crate::http::codes::Code;

const MEMBERS: &str = "Members";

pub fn request_bodies() -> [(&'static str, Value); 2] {
    [
        (
            "MemberRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["name", "role"],
                "properties": { "name": name(), "role": role() },
            }),
        ),
        (
            "MemberChangeRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["role"],
                "properties": { "role": role() },
            }),
        ),
    ]
}

pub fn list_members() -> Operation {
    Operation::api(
        MEMBERS,
        "listMembers",
        "List Members",
        "Who is in the organization, in the order in which they came.",
    )
    .query("role", "Only those with this role", role())
    .query("name", "Only the one of this name", name())
    .slice()
    .answers_list("The members", "Member", "Pagination")
}

pub fn get_member() -> Operation {
    Operation::api(MEMBERS, "getMember", "Get Member", "One of them.")
        .answers(200, "The member", "Member", &[])
        .fails(&[Code::MemberNotFound])
}

pub fn add_member() -> Operation {
    Operation::api(
        MEMBERS,
        "addMember",
        "Add Member",
        "A name is unique in its organization, and stays. Who was removed and comes back has another id, and neither the \
         tokens nor the sessions of before.",
    )
    .body("MemberRequest", true)
    .writes()
    .answers(201, "The member", "Member", &["Location"])
    .fails(&[Code::MemberExists, Code::MemberLimitReached])
}

pub fn change_member() -> Operation {
    Operation::api(
        MEMBERS,
        "changeMember",
        "Change Member",
        "Gives them another role, which acts on their next request. One that a file declares keeps the role given here until \
         the file says another one than before.",
    )
    .body("MemberChangeRequest", true)
    .writes()
    .answers(200, "The member", "Member", &[])
    .fails(&[Code::MemberNotFound, Code::LastAdmin])
}

pub fn remove_member() -> Operation {
    Operation::api(
        MEMBERS,
        "removeMember",
        "Remove Member",
        "Revokes all their tokens, which stop working before this answers. Sessions they hold go on until they expire or a \
         maintainer releases them. One that a file declares stays removed until the file says another role than before.",
    )
    .writes()
    .answers_nothing(204, "Removed", &[])
    .fails(&[Code::MemberNotFound, Code::LastAdmin])
}

pub fn path_parameter(name: &str) -> Option<(&'static str, Value, &'static str)> {
    let schema = json!({ "type": "string", "pattern": "^usr_[0-9a-f]{24}$" });
    (name == "userId").then_some(("The member's id", schema, "usr_0199f3c2a4b07f3e9d2c5a1b"))
}

fn name() -> Value {
    json!({ "type": "string", "pattern": IDENTIFIER_PATTERN, "examples": ["ana"] })
}

fn role() -> Value {
    json!({ "enum": Role::ALL.map(Role::as_str) })
}
