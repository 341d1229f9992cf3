//! The network: names, connections, TLS, timeouts, and responses of servers.

super::signature::signatures! {
    NameResolution 95
        hints "could not resolve host"
        pattern r"could ?n[o']t resolve host(?:name)?:? \W?(?P<host>[\w.-]+)"
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS used by the step's machine"
        like "curl: (6) Could not resolve host: api.acme.example",
            "ssh: Could not resolve hostname web-9: Name or service not known";
    NameResolution 93
        hints "no such host"
        pattern r"lookup (?P<host>[\w.-]+)(?: on \S+)?: no such host"
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS used by the step's machine"
        like "dial tcp: lookup registry.acme.example on 10.0.0.2:53: no such host";
    NameResolution 92
        hints "enotfound", "eai_again"
        pattern r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (?P<host>[\w.-]+)"
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS used by the step's machine"
        like "Error: getaddrinfo ENOTFOUND db.review-3.internal",
            "npm ERR! request to https://npm.example.com/react failed, reason: getaddrinfo EAI_AGAIN npm.example.com";
    NameResolution 92
        hints "unknownhostexception"
        pattern r"UnknownHostException: (?P<host>[\w.-]+)"
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS used by the step's machine"
        like "Caused by: java.net.UnknownHostException: kafka-0.kafka";
    NameResolution 90
        hints "could not translate host name"
        pattern r#"could not translate host name "(?P<host>[^"]+)""#
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS used by the step's machine"
        like r#"psql: error: could not translate host name "db" to address: Name or service not known"#;
    NameResolution 88
        hints "name or service not known", "temporary failure in name resolution", "nodename nor servname",
            "name does not resolve", "unknown host", "no address associated with hostname",
            "failed to lookup address", "temporary failure resolving", "could not resolve '", "nxdomain", "dns error", "could not be resolved", "name resolution"
        pattern r"name or service not known|temporary failure (?:in name resolution|resolving)|could not resolve '[\w-]+\.[\w.-]+'|nodename nor servname|name does not resolve|unknown host\b|no address associated with hostname|failed to lookup address|\bNXDOMAIN\b|dns error|could not be resolved|name resolution (?:failed|error)"
        cause "a host name cannot be resolved"
        fix "check the spelling of the name and that it has a record in the DNS used by the step's machine"
        like "socket.gaierror: [Errno -2] Name or service not known",
            "lockkeeper: the step got no response: error sending request: client error (Connect): dns error: failed to lookup address information";

    ConnectionFailed 90
        hints "refused"
        pattern r"host (?P<host>[\w.-]+) port \d+: .*refused|server at \x22(?P<server>[^\x22]+)\x22.*refused|(?P<target>(?:[\w-]+\.)*[\w-]+:\d{2,5}|\[[0-9a-f:]+\]:\d+)\b.{0,60}\brefused\b"
        cause "nothing answers at {host/server/target|…}: the connection is refused"
        fix "check that the service at {host/server/target|…} is running, listens on that address and port, and has had time to start"
        like "dial tcp 10.0.3.4:5432: connect: connection refused",
            r#"psql: error: connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused"#;
    ConnectionFailed 90
        hints "econnrefused"
        pattern r"ECONNREFUSED (?P<target>[\w.:\[\]-]+)"
        cause "nothing answers at {target}: the connection is refused"
        fix "check that the service at {target} is running, listens on that address and port, and has had time to start"
        like "Error: connect ECONNREFUSED 127.0.0.1:6379";
    ConnectionFailed 88
        hints "failed to connect to", "couldn't connect to", "could not connect to"
        pattern r"(?:failed to connect to|couldn't connect to|could not connect to) (?P<target>\S+ port \d+|[\w-]*[.:][\w.:-]*\w|localhost)"
        cause "cannot connect to {target}"
        fix "check that the service at {target} is running, listens on that address and port, and is reachable from the step"
        like "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server";
    ConnectionFailed 86
        hints "does not answer, or has no public address"
        pattern r"does not answer, or has no public address"
        cause "the host of the request cannot be reached, or its address is private and not allowed"
        fix "check the URL of the step; if its address is private, have an operator add it to outbound.allow; the server's log has the reason"
        like "lockkeeper: the step got no response: its host does not answer, or has no public address; check the name, or have an operator allow its address with outbound.allow; the server's log has the reason";
    ConnectionFailed 84
        hints "connection refused", "econnrefused", "connectionrefused", "actively refused"
        pattern r"connection refused|ECONNREFUSED|ConnectionRefused|actively refused"
        cause "a connection is refused: nothing is listening there"
        fix "check that the service is running, listens on that address and port, and has had time to start"
        like "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))";
    ConnectionFailed 82
        hints "connection reset", "econnreset", "broken pipe", "unexpected eof", "connection closed",
            "connection aborted", "socket hang up", "remote end hung up", "connection was closed", "early eof",
            "unexpectedly closed", "connection terminated", "server closed the connection", "closed by remote host",
            "broke off"
        pattern r"connection reset|ECONNRESET|connection (?:was )?closed (?:by|unexpectedly)|connection unexpectedly closed|connection terminated|connection aborted|socket hang up|remote end hung up|server closed the connection|closed by remote host|\bearly EOF\b|(?:an answer|a response) that broke off"
        cause "the other side closed the connection"
        fix "check the other side's log at that time: it restarted, ran into a limit, or a proxy closed the connection; retry in that case"
        like "read tcp 10.0.0.5:41022->10.0.0.9:443: read: connection reset by peer",
            "fatal: the remote end hung up unexpectedly";
    ConnectionFailed 86
        hints "no route to host", "network is unreachable", "enetunreach", "ehostunreach", "host is unreachable",
            "host is down"
        pattern r"no route to host|network is unreachable|ENETUNREACH|EHOSTUNREACH|host is (?:unreachable|down)"
        cause "there is no route to the other machine"
        fix "check the network, routes and firewall between the step and that machine; often it is an IPv6 address on a machine without IPv6"
        like "connect: no route to host",
            "Error: connect ENETUNREACH 2606:4700::6810:1823:443";
    ConnectionFailed 90
        hints "cannot connect to the docker daemon", "is the docker daemon running"
        pattern r"cannot connect to the docker daemon|is the docker daemon running"
        cause "no Docker daemon responds where the step runs"
        fix "start the daemon, or set DOCKER_HOST to its address as a variable of the pipeline"
        like "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
    ConnectionFailed 88
        hints "was refused - did you specify"
        pattern r"The connection to the server (?P<target>\S+) was refused"
        cause "the cluster's API at {target} refuses the connection"
        fix "check which cluster the kubeconfig of the step names: without one it tries localhost:8080"
        like "The connection to the server localhost:8080 was refused - did you specify the right host or port?";
    ConnectionFailed 86
        hints "can't connect to", "is the server running on that host", "could not connect to redis",
            "connection to database failed"
        pattern r"can't connect to (?:local )?(?:MySQL|server|MariaDB)|is the server running (?:on that host|locally)|could not connect to redis|connection to database failed"
        cause "cannot connect to the database"
        fix "check that the database is running, that host and port are right, and that it has had time to start"
        like "ERROR 2002 (HY000): Can't connect to MySQL server on 'db' (115)";

    Tls 95
        hints "certificate has expired", "certificate is expired", "certificate expired",
            "has expired or is not yet valid", "cert_has_expired"
        pattern r"certificate (?:has |is )?expired|certificate has expired or is not yet valid|CERT_HAS_EXPIRED"
        cause "the server's certificate has expired"
        fix "renew the certificate; if it was renewed, restart or reload the server, and check the clock of the machine that runs the step"
        like "x509: certificate has expired or is not yet valid: current time 2026-03-02T10:00:00Z is after 2026-03-01T00:00:00Z";
    Tls 93
        hints "unknown authority", "self-signed certificate", "self signed certificate",
            "unable to get local issuer", "unable to verify the first certificate", "unable to get issuer",
            "unknown ca", "pkix path building failed", "unknownissuer", "untrusted certificate",
            "depth_zero_self_signed", "self_signed_cert"
        pattern r"signed by unknown authority|self[- ]signed certificate|unable to get (?:local )?issuer|unable to verify the first certificate|unknown ca\b|PKIX path building failed|UnknownIssuer|untrusted certificate|SELF_SIGNED_CERT"
        cause "the server's certificate is signed by an authority that the step does not trust"
        fix "add the authority's certificate to the step's trust store, or configure the server to send its whole chain; do not disable the check"
        like "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "SSL certificate problem: unable to get local issuer certificate";
    Tls 92
        hints "certificate is valid for", "does not match target host", "hostname mismatch",
            "no alternative certificate subject name", "altname", "doesn't match", "notvalidforname",
            "no subject alternative"
        pattern r"certificate is valid for .*, not |does not match target host|hostname mismatch|no alternative certificate subject name|ERR_TLS_CERT_ALTNAME_INVALID|hostname '[^']+' doesn't match|NotValidForName|No subject alternative"
        cause "the server's certificate is for another name"
        fix "use a name from the certificate, or have the name added to it"
        like "x509: certificate is valid for *.acme.example, not review-7.apps.acme.example";
    Tls 86
        hints "ssl", "tls", "x509", "certificate", "handshake"
        pattern r"SSL[_ ](?:ERROR|connect error)|SSL routines|sslv3 alert|tlsv1 alert|wrong version number|certificate verif(?:y|ication) failed|CERTIFICATE_VERIFY_FAILED|x509: |handshake (?:failure|failed|error)|TLS handshake (?:error|failed)|bad certificate|SSLHandshakeException|invalid peer certificate|gnutls_handshake"
        cause "a secure connection could not be established"
        fix "check the certificate, the protocol versions and whether the port uses TLS at all; `openssl s_client -connect host:port` shows it"
        like "curl: (35) error:0A00010B:SSL routines::wrong version number",
            "javax.net.ssl.SSLHandshakeException: Received fatal alert: handshake_failure",
            "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed";

    Timeout 88
        hints "timed out", "timeout", "time-out", "etimedout"
        pattern r"(?:connect(?:ion|ing)?|dial tcp|request|read|operation|curl: \(28\)).{0,120}?(?:timed out|i/o timeout)|\b(?:connection|connect|read|request|gateway) time-?out\b|ETIMEDOUT|ESOCKETTIMEDOUT|ERR_SOCKET_TIMEOUT|TLS handshake timeout|Gateway Time-?out"
        cause "a connection or a request timed out"
        fix "check that the other side is reachable from the step (firewall, address) and is not overloaded"
        like "curl: (28) Connection timed out after 30001 milliseconds",
            "dial tcp 10.0.0.9:443: i/o timeout",
            "npm ERR! code ETIMEDOUT";
    Timeout 86
        hints "context deadline exceeded", "deadline exceeded", "deadline_exceeded"
        pattern r"context deadline exceeded|DEADLINE_EXCEEDED|deadline exceeded"
        cause "an operation exceeded its time limit"
        fix "check what it waited for; raise the limit only if it really needs longer"
        like "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    Timeout 84
        hints "timed out waiting", "timeout waiting", "timeout while waiting", "timed out after", "timeout after", "timeout exceeded",
            "exceeded timeout", "timeout expired", "gave up waiting", "did not complete within", "timeoutexpired",
            "not ready after", "exceeded the timeout", "exceeded its timeout", "exceeded the maximum execution time"
        pattern r"timed out waiting|timeout (?:while )?waiting|timed out after|timeout after|timeout (?:of \S+ )?exceeded|exceeded (?:the |its )?timeout|timeout expired|gave up waiting|did not complete within|TimeoutExpired|exceeded the maximum execution time"
        cause "it waited for something that did not happen in time"
        fix "see why what it waited for did not come; raise the limit only if it really needs longer"
        like "error: timed out waiting for the condition on jobs/migrate",
            "subprocess.TimeoutExpired: Command '['make']' timed out after 300 seconds";
    Timeout 66
        hints "timed out", "time out", "timeouterror", "timeoutexception"
        pattern r"\btimed out\b|\btime out\b|Timeout(?:Error|Exception)\b"
        cause "something timed out"
        fix "check what it waited for and why that did not come; raise the limit only if it really needs longer"
        like "Error: the smoke test timed out";

    RateLimited 96
        hints "toomanyrequests", "too many requests", "rate limit", "rate-limit", "ratelimit", "throttl",
            "quota exceeded for quota metric", "secondary rate", "slow down"
        pattern r"toomanyrequests|too many requests|rate.?limit(?:ed|s)?(?: has been| was)? ?(?:exceeded|reached|hit|error)?|ThrottlingException|\bThrottled\b|Throttling: Rate exceeded|Quota exceeded for quota metric|secondary rate limit|RequestLimitExceeded"
        cause "a server answers that there were too many requests"
        fix "log in (anonymous callers get the lowest limits), use a mirror or a cache, or run it again later"
        like "Error response from daemon: toomanyrequests: You have reached your pull rate limit.",
            "HTTP 403: API rate limit exceeded for installation ID 1.";
    RateLimited 95
        hints "429"
        pattern r"\b(?:HTTP(?:/[\d.]+)?|status(?: code)?:?|response(?: code)?:?|error:?|returned|answered(?: with status)?|with|code)[ :=]+\(?429\b|\b429(?: Too|: Too| Client)|HTTP-?429"
        cause "a server answers that there were too many requests (429)"
        fix "log in (anonymous callers get the lowest limits), use a mirror or a cache, or run it again later"
        like "curl: (22) The requested URL returned error: 429";

    ConnectionFailed 84
        hints ": eof", "unexpected eof", "incompleteread", "connection broken", "chunkedencodingerror", "transfer closed",
            "was not closed cleanly", "premature", "trouble with your network", "tunneling socket", "fetch failed",
            "econnaborted", "closedchannelexception", "connection was lost", "bytes missing", "content-length mismatch"
        pattern r"(?:Get|Post|Head|Put) \\?\x22https?://[^\x22]+\x22: (?:unexpected )?EOF|(?:read|copy|body|fetch|download|layer)\w*\b.{0,60}: unexpected EOF|IncompleteRead|Connection broken|ChunkedEncodingError|transfer closed with|was not closed cleanly|Premature (?:close|end)|trouble with your network connection|tunneling socket could not be established|^(?:TypeError: )?fetch failed\s*$|ECONNABORTED|ClosedChannelException|bytes missing"
        cause "the connection broke off"
        fix "run it again; if it repeats, check the proxy and the network between the step and the other side"
        like "Get \"https://registry.example.com/v2/\": EOF",
            "curl: (18) transfer closed with 1024 bytes remaining to read";
    NameResolution 94
        hints "could not resolve proxy"
        pattern r"Could not resolve proxy: (?P<host>\S+)"
        cause "the name `{host}` of the proxy cannot be resolved"
        fix "check the variables of the proxy (`HTTPS_PROXY`): the step sees only those of the environment and the pipeline"
        like "curl: (5) Could not resolve proxy: proxy.acme.example";
    Tls 88
        hints "terminated the handshake", "received fatal alert", "ssl_error_syscall", "no_cipher_overlap", "unsupported protocol",
            "server certificate verification failed", "trustanchors", "no cipher suites in common"
        pattern r"terminated the handshake|Received fatal alert|SSL_ERROR_SYSCALL|unsupported protocol|server certificate verification failed|trustAnchors parameter must be non-empty|no cipher suites in common"
        cause "a secure connection could not be established"
        fix "check the certificate, the versions of TLS on both sides, and the package of CA certificates where the step runs"
        like "javax.net.ssl.SSLHandshakeException: Remote host terminated the handshake",
            "fatal: unable to access 'https://git.example.com/x.git/': server certificate verification failed. CAfile: none CRLfile: none";
    ConnectionFailed 82
        of Packages
        hints "valid baseurl for repo", "failed to download metadata", "failed to fetch", "cannot initiate the connection", "temporary error",
            "connection failed [ip"
        pattern r"Cannot find a valid baseurl for repo|Failed to download metadata for repo|Cannot initiate the connection to (?P<host>\S+)|Connection failed \[IP|temporary error \(try again later\)"
        cause "the mirrors of the distribution cannot be reached: {host|see the line}"
        fix "check the network of the step and its proxy; run it again if it was a mirror"
        like "Error: Failed to download metadata for repo 'appstream': Cannot prepare internal mirrorlist: No URLs in mirrorlist";
    HttpStatus 74
        hints "was answered with status"
        pattern r"the step was answered with status (?P<status>\d{3})"
        cause "the request of the step was answered with status {status}, which it does not expect"
        fix "check the answer in the log and at the other side's own log; if {status} is right, add it to `expectStatus`"
        like "lockkeeper: the step was answered with status 503";
    HttpStatus 76
        hints "http/"
        pattern r"^HTTP/\d(?:\.\d)? (?P<status>[45]\d\d)\b"
        cause "a request was answered with status {status}"
        fix "check the answer in the log and at the other side's own log"
        like "HTTP/1.1 502 Bad Gateway";
    HttpStatus 75
        hints "the requested url returned error"
        pattern r"The requested URL returned error: (?P<status>\d{3})"
        cause "a request was answered with status {status}"
        fix "check the URL, and the other side's log for why it answers {status}"
        like "curl: (22) The requested URL returned error: 500";
    HttpStatus 72
        hints "status", "http", "server error", "bad gateway", "service unavailable", "expected 2",
            "internal server error", "answered"
        pattern r"(?:http(?:/[\d.]+)?|status(?: ?code)?|response(?: code)?|answered(?: with)?|returned|got|server error)[ :=]+\(?(?P<status>[45]\d\d)\b|\b(?P<also>50[0-4]) (?:Internal Server Error|Bad Gateway|Service (?:Temporarily )?Unavailable|Server Error|Gateway Time-?out)|\b(?P<client>40[04589]|410|422) (?:Client Error|Not Found|Bad Request|Unprocessable|Conflict)"
        cause "a request was answered with status {status/also/client}"
        fix "check what was answered and at the other side's own log"
        like "smoke: GET /checkout: expected 200, got 500",
            "requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://x",
            "fetch failed: status code 404";
    NameResolution 93
        hints "host not found in"
        pattern r#"host not found in (?:upstream|resolver) "?(?P<host>[\w.-]+)"#
        cause "the name `{host}` cannot be resolved"
        fix "check the spelling of `{host}` and that it has a record in the DNS that the machine uses when its configuration is read"
        like "nginx: [emerg] host not found in upstream \"api\" in /etc/nginx/conf.d/default.conf:9";
    ConnectionFailed 86
        hints "reach"
        pattern r"(?:can't|cannot|could not|couldn't|unable to|failed to) reach (?P<what>[^\r\n]{1,100})"
        cause "there is no connection to {what}"
        fix "check that it runs, listens on that address and port, and is reachable from the step"
        like "Error: P1001: Can't reach database server at `db:5432`";
    ConnectionFailed 80
        hints "connect"
        pattern r"(?:unable to|cannot|can't|could not|couldn't|failed to) (?:connect|establish (?:a )?(?:new )?connection)\b"
        cause "a connection could not be established"
        fix "check that the other side runs, listens on that address and port, and is reachable from the step"
        like "Unable to connect to the cluster",
            "error: failed to connect";
    ConnectionFailed 86
        hints "unreachable!", "broker may not be available", "nobrokersavailable", "ora-12", "not accept connection",
            "server selection timeout", "no server available", "failed calling webhook", "no nodes available"
        pattern r"UNREACHABLE!|Broker may not be available|NoBrokersAvailable|ORA-12(?:154|170|505|514|541|545|543)|No server available|failed calling webhook|no (?:reachable|alive) (?:nodes|servers)|NoNodeAvailable"
        cause "a machine or a service that is needed does not answer"
        fix "check that it runs and is reachable from the step"
        like "fatal: [web-2]: UNREACHABLE! => {\"changed\": false, \"msg\": \"Failed to connect to the host via ssh\"}";
    NameResolution 90
        hints "unknown mysql server host", "no resolvable", "couldn't resolve", "getaddrinfo",
            "dns resolution", "dns lookup", "hostname: '"
        pattern r"Unknown MySQL server host '(?P<host>[^']+)'|No resolvable bootstrap urls|couldn't resolve (?:server|host|address)|getaddrinfo\w*\b.{0,20}(?:failed|error)|DNS (?:resolution|lookup)\b.{0,60}\bfail\w*|hostname: '(?P<salt>[^']+)' not found"
        cause "a host name cannot be resolved: {host/salt|see the line}"
        fix "check the spelling of the name and that it has a record in the DNS used by the step's machine"
        like "ERROR 2005 (HY000): Unknown MySQL server host 'db-review' (-2)",
            "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers";
    ConnectionFailed 84
        hints "rpc failed", "empty reply from server", "epipe", "prematurely closed", "failed to respond", "forcibly closed",
            "err_connection", "disconnected"
        pattern r"RPC failed; |Empty reply from server|\bEPIPE\b|prematurely closed|failed to respond|forcibly closed|net::ERR_CONNECTION_\w+|server disconnected"
        cause "the other side closed the connection"
        fix "check the other side's log at that time; try again if it was a restart or a proxy in between"
        like "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)",
            "net::ERR_CONNECTION_REFUSED at http://localhost:3000/";
    ConnectionFailed 90
        hints "can't contact ldap", "connectionclosedexception", "premature end of content-length", "connection was broken", "no connection could be made", "lost connection to",
            "server closed the connection", "server has gone away", "connection terminated", "connection unexpectedly closed", "kex_exchange_identification", "no route to host"
        pattern r"Can't contact LDAP server|ConnectionClosedException|Premature end of Content-Length|No connection could be made|Lost connection to (?:MySQL|the|server)|server closed the connection unexpectedly|server has gone away|Connection terminated unexpectedly|connection unexpectedly closed|kex_exchange_identification: |No route to host"
        cause "the other side cannot be reached, or closed the connection"
        fix "check that it runs and is reachable from the step; run it again if it was a moment"
        like "ldap_sasl_bind(SIMPLE): Can't contact LDAP server (-1)",
            "> org.apache.http.ConnectionClosedException: Premature end of Content-Length delimited message body (expected: 5229544; received: 4263892)",
            "rsync: connection unexpectedly closed (0 bytes received so far) [sender]";
    RateLimited 90
        hints "exceeded the request limit", "at a high rate", "limited to once", "rate exceeded", "slow down", "slowdown", "requests per", "too many attempts", "try again in", "request limit"
        pattern r"exceeded the request limit|requests at a high rate|limited to once in|\bRate exceeded\b|\bSlowDown\b|(?:exceeded|limit of|maximum of|more than) .{0,30}requests per (?:second|minute|hour|day)|too many (?:login |failed )?attempts.{0,40}(?:later|try again|wait)|request limit (?:exceeded|reached)"
        cause "a server answers that there were too many requests"
        fix "send fewer requests at a time, or run it again later"
        like "The deployment failed because the number of requests by the IAM role exceeded the request limit for AWSLambda. Avoid retrying API requests at a high rate.";
}
