//! The arguments of every command that talks to the server: its own, and the connection options.

use std::process::ExitCode;

use crate::api::Api;
use crate::connection::options::Options;
use crate::failure::Failure;
use crate::output::Out;

/// The arguments of a command that talks to the server.
#[derive(clap::Args)]
pub struct Connected<A: clap::Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    pub options: Options,
}

impl<A: clap::Args> Connected<A> {
    pub async fn run(
        self,
        command: impl AsyncFnOnce(A, &Api, &Out) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let api = Api::connect(&self.options).await?;
        command(self.args, &api, &self.options.out()).await.map(|()| ExitCode::SUCCESS)
    }
}
