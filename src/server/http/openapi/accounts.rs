//! The operations on members, tokens and secrets. Responses never contain the value of a secret.

use serde_json::json;

use super::operation::Operation;
use crate::forms::MemberForm;
use crate::http::codes::Code;
use crate::http::resources::members::{CallerView, InvitationForm, InvitationView, MemberChangeForm, MemberView};
use crate::http::resources::secrets::{SecretChangeForm, SecretForm, SecretView};
use crate::http::resources::token_exchange::{ACCESS_TOKEN, ExchangedTokenView, GRANT_TYPE, ID_TOKEN};
use crate::http::resources::tokens::{TokenForm, TokenView, TokenWithSecret};
use accounts::identities::IDENTITY_TOKEN_BYTES_MAX;
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
    Operation::api(MEMBERS, "getMember").about("One member.").answers::<MemberView<'_>>(200, "The member", &[])
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
        .fails(&[Code::LastAdmin])
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
        .fails(&[Code::LastAdmin])
}

pub fn list_tokens() -> Operation {
    Operation::api("Tokens", "listTokens")
        .about("Your tokens, oldest first, without their text; for admins, those of all members.")
        .query::<bool>("mine", "`true`: only those of the caller")
        .lists::<TokenView<'_>>("The tokens")
}

pub fn create_token() -> Operation {
    Operation::api("Tokens", "createToken")
        .about(
            "Every member creates their own tokens, admins also those of others. A token has the current permissions of its member. Its text is shown once: a retry with the same \
             `Idempotency-Key` gets the first answer with `token` null. If the first answer was lost, revoke the token \
             and create another with a new key.",
        )
        .body::<TokenForm>()
        .answers::<TokenWithSecret<'_>>(201, "The token, with its text unless this is a retry", &["Location"])
        .fails(&[Code::TokenLimitReached])
}

pub fn exchange_token() -> Operation {
    let text = |description: &str, value: &str| json!({ "type": "string", "description": description, "const": value });
    let schema = json!({
        "type": "object",
        "description": "An exchange by RFC 8693.",
        "required": ["grant_type", "subject_token", "subject_token_type"],
        "examples": [{ "grant_type": GRANT_TYPE, "subject_token": "eyJhbGciOi…", "subject_token_type": ID_TOKEN }],
        "additionalProperties": false,
        "properties": {
            "grant_type": text("What is asked for.", GRANT_TYPE),
            "subject_token": {
                "type": "string", "minLength": 1, "maxLength": IDENTITY_TOKEN_BYTES_MAX,
                "description": "The identity token (JWT) that the CI has given the job.", "examples": ["eyJhbGciOi…"],
            },
            "subject_token_type": text("The kind of `subject_token`.", ID_TOKEN),
            "requested_token_type": text("The kind of the answer; may be left out.", ACCESS_TOKEN),
        },
    });
    Operation::api("Tokens", "exchangeToken")
        .about(
            "A token for a job of a CI, in exchange for the identity token that its CI has given it, by RFC 8693: no secret is \
             stored in the CI. The organization's file names the issuers that it trusts (`[[identities]]`), and rules from \
             claims to a role. The job acts as the member that the rule names. An identity token can be exchanged 20 times; each \
             exchange is an event, `token.exchanged`. Whatever is wrong with an identity token is answered with `invalid_grant`, \
             also if there is no such organization. A missing or unknown parameter is answered with `invalid_request` and 400, \
             as RFC 6749 has it. Needs no `Authorization`.",
        )
        .without_token()
        .body_form("TokenExchangeRequest", schema)
        .answers_plain::<ExchangedTokenView<'_>>(200, "The token", &[])
        .fails(&[Code::InvalidGrant, Code::UnsupportedGrantType, Code::IssuerUnavailable])
}

pub fn revoke_token() -> Operation {
    Operation::api("Tokens", "revokeToken")
        .about("The token stops working before the answer. Every member revokes their own tokens, admins those of all.")
        .deletes("Revoked")
}

const SECRETS: &str = "Secrets";

pub fn list_secrets() -> Operation {
    Operation::api(SECRETS, "listSecrets")
        .about("The secrets of the organization and of its pipelines, by pipeline and name, without their values.")
        .query::<Identifier>("pipelineId", "Only secrets of this pipeline")
        .lists::<SecretView<'_>>("The secrets")
}

pub fn create_secret() -> Operation {
    Operation::api(SECRETS, "createSecret")
        .about(
            "Steps get it as a variable, from the next stage that starts. A name is unique in its scope: the \
             organization, or one pipeline.",
        )
        .body::<SecretForm>()
        .answers::<SecretView<'_>>(201, "The secret, without its value", &["Location", "ETag"])
        .fails(&[Code::SecretExists, Code::SecretLimitReached])
}

pub fn get_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "getSecret").about("A secret without its value."))
        .answers_unless_known::<SecretView<'_>>("The secret")
}

pub fn update_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "updateSecret").about("Changes the value or the description."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<SecretChangeForm>()
        .answers::<SecretView<'_>>(200, "The secret, without its value", &["ETag"])
        .fails(&[Code::PreconditionFailed])
}

pub fn delete_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "deleteSecret").about("Steps that have started keep it."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .deletes("Deleted")
        .fails(&[Code::PreconditionFailed])
}

fn in_scope(operation: Operation) -> Operation {
    operation.query::<Identifier>("pipelineId", "Its pipeline; if left out, a secret of the organization")
}
