//! A hidden command of this program that connects its standard input and output with a host, through a [`Proxy`] of the
//! server. For programs such as ssh that support no proxy but can start a command. Uses plain threads, no runtime and
//! no settings.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use zeroize::Zeroizing;

use super::proxy::Proxy;

/// The argument that makes this program a tunnel; host and port follow.
pub const TUNNEL_COMMAND: &str = "tunnel-to";
const PROXY_VARIABLE: &str = "LK_TUNNEL_PROXY";
const AUTHORIZATION_VARIABLE: &str = "LK_TUNNEL_AUTHORIZATION";
/// The path of this program, for the shell that starts it.
const PROGRAM_VARIABLE: &str = "LK_TUNNEL_PROGRAM";
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The shell command that starts a tunnel, in a process with the [`tunnel_variables`].
pub fn tunnel_command(host: &str, port: &str) -> String {
    format!("\"${PROGRAM_VARIABLE}\" {TUNNEL_COMMAND} {host} {port}")
}

/// The environment variables that a process needs to start tunnels through this proxy; `program` is the path of this
/// one.
pub fn tunnel_variables(program: &Path, proxy: &Proxy) -> [(&'static str, OsString); 3] {
    [
        (PROGRAM_VARIABLE, program.into()),
        (PROXY_VARIABLE, proxy.address().to_string().into()),
        (AUTHORIZATION_VARIABLE, proxy.authorization().as_str().into()),
    ]
}

/// Runs until one side has ended. Silent on failure: the proxy has the reason, for the server's log only.
pub fn tunnel(host: &str, port: &str) -> ExitCode {
    match run(host, port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(host: &str, port: &str) -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).map_err(io::Error::other);
    let authorization = Zeroizing::new(variable(AUTHORIZATION_VARIABLE)?);
    let mut proxy = TcpStream::connect(variable(PROXY_VARIABLE)?)?;
    proxy.set_nodelay(true)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: {}\r\n\r\n", *authorization);
    proxy.write_all(Zeroizing::new(request).as_bytes())?;
    if !is_connected(&mut proxy)? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let mut there = proxy.try_clone()?;
    // Not joined, since it may wait for input that never comes.
    thread::Builder::new().spawn(move || {
        io::copy(&mut io::stdin().lock(), &mut there).ok();
        there.shutdown(Shutdown::Write).ok();
    })?;
    copy_out(&mut proxy)
}

/// Whether the proxy has connected. Reads single bytes, so that it does not consume data after the head.
fn is_connected(proxy: &mut TcpStream) -> io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut byte = [0];
        proxy.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head.starts_with(b"HTTP/1.1 200 "))
}

/// Forwards data as it arrives: the other side may wait for an answer to it.
fn copy_out(from: &mut TcpStream) -> io::Result<()> {
    let mut to = io::stdout().lock();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}
