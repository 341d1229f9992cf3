//! The operations on members.

use super::operation::Operation;
use crate::forms::MemberForm;
use crate::http::codes::Code;
use crate::http::resources::members::{CallerView, InvitationForm, InvitationView, MemberChangeForm, MemberView};
use domain::{Identifier, Role};

const MEMBERS: &str = "Members";

pub fn list_members() -> Operation {
    Operation::api(MEMBERS, "listMembers")
        .about("The members of the organization, oldest first.")
        .query::<Role>("role", "Only those with this role")
        .query::<Identifier>("name", "Only the one with this name")
        .lists::<MemberView<'_>>("The members")
}

pub fn who_am_i() -> Operation {
    Operation::api(MEMBERS, "whoAmI")
        .titled("Who Am I")
        .about(
            "The organization, the member, the role and the token of the caller (null for a browser that has signed in): a check whether a token works, and what for. \
             Every role may ask.",
        )
        .answers::<CallerView<'_>>(200, "The caller", &[])
}

pub fn get_member() -> Operation {
    Operation::api(MEMBERS, "getMember")
        .about("One member.")
        .answers::<MemberView<'_>>(200, "The member", &[])
        .fails(&[Code::MemberNotFound])
}

pub fn add_member() -> Operation {
    Operation::api(MEMBERS, "addMember")
        .about(
            "A name is unique in its organization and cannot be changed. A member who was removed and is added again \
             has a new id, without the earlier tokens and sessions.",
        )
        .body::<MemberForm>()
        .answers::<MemberView<'_>>(201, "The member", &["Location"])
        .fails(&[Code::MemberExists, Code::MemberLimitReached])
}

pub fn change_member() -> Operation {
    Operation::api(MEMBERS, "changeMember")
        .about(
            "Takes effect at once, also for requests that the member has not finished sending. A member declared in a file keeps this role until \
             the role in the file changes. Who is disabled keeps everything, and can do nothing until they are enabled again.",
        )
        .body::<MemberChangeForm>()
        .answers::<MemberView<'_>>(200, "The member", &[])
        .fails(&[Code::MemberNotFound, Code::LastAdmin])
}

pub fn invite_member() -> Operation {
    Operation::api(MEMBERS, "inviteMember")
        .about(
            "A link with which the member chooses a password for the dashboard, also instead of a lost one. It works once, and \
             until it expires (`auth.invitation_hours`); a new one replaces it. The old password works until then. Send it over a \
             channel that you trust: whoever opens it first is the member. It ends with what it was made from, like a token: with \
             the token that made it, or when its maker signs out everywhere or changes the password. Nobody invites themselves \
             with a sign-in or with a token that expires or was made from something else, and jobs invite nobody.",
        )
        .body::<InvitationForm>()
        .answers::<InvitationView<'_>>(201, "The invitation, with its link unless this is a retry", &[])
        .fails(&[
            Code::MemberNotFound,
            Code::MemberDisabled,
            Code::MemberForJobs,
            Code::InvitationDenied,
            Code::InsecureSignIn,
            Code::PublicUrlRequired,
        ])
}

pub fn remove_member() -> Operation {
    Operation::api(MEMBERS, "removeMember")
        .about(
            "Revokes all their tokens, which stop working before the answer; requests of theirs that wait or stream end. \
             Their sessions continue until they expire \
             or a maintainer releases them. A member declared in a file stays removed until the role in the file \
             changes.",
        )
        .deletes("Removed")
        .fails(&[Code::MemberNotFound, Code::LastAdmin])
}
