//! What machines run out of: memory, disk, ports, processes; and programs that die of themselves or are killed.

super::signature::signatures! {
    PortInUse 95
        hints "address already in use", "eaddrinuse"
        pattern r"(?:EADDRINUSE|address already in use)\S*(?: .*?)??[ :]+(?:\S*:)?(?P<port>\d{2,5})\b"
        cause "port {port} is already in use where it was to be listened on"
        fix "stop what holds port {port} (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "Error: listen EADDRINUSE: address already in use :::3000";
    PortInUse 94
        hints "address already in use"
        pattern r":(?P<port>\d{2,5})\b.{0,60}address already in use"
        cause "port {port} is already in use where it was to be listened on"
        fix "stop what holds port {port} (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "listen tcp 0.0.0.0:9090: bind: address already in use",
            "nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)";
    PortInUse 90
        hints "address already in use", "eaddrinuse", "addrinuse"
        pattern r"address already in use|EADDRINUSE|AddrInUse"
        cause "the address it was to listen on is already in use"
        fix "stop what holds the port (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "OSError: [Errno 98] Address already in use";
    PortInUse 95
        hints "port is already allocated"
        pattern r"(?::(?P<port>\d{2,5}) failed: )?port is already allocated"
        cause "the port {port|it publishes} of the host is already taken by another container"
        fix "stop the container that publishes it (`docker ps` shows it), or publish another port"
        like "Bind for 0.0.0.0:5432 failed: port is already allocated";
    PortInUse 92
        hints "already in use", "is in use", "already being used", "was already in use", "is not available"
        pattern r"\bports?\W{0,3} ?(?P<port>\d{2,5})\W? (?:is|was|are) (?:already |currently )?(?:in use|being used|taken|occupied|not available|allocated)"
        cause "port {port} is already in use"
        fix "stop what holds port {port} (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "Web server failed to start. Port 8080 was already in use.",
            "Something is already running: port 5173 is in use";
    PortInUse 90
        hints "provided port is already allocated", "nodeport"
        pattern r"provided port is already allocated"
        cause "the node port of the service is taken by another service of the cluster"
        fix "leave `nodePort` out so that the cluster chooses one, or use another"
        like "The Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated";

    OutOfMemory 96
        hints "heap out of memory"
        pattern r"JavaScript heap out of memory"
        cause "Node ran out of heap"
        fix "raise it (`NODE_OPTIONS=--max-old-space-size=4096` as a variable of the pipeline) if the machine has that much, or do less at once"
        like "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
    OutOfMemory 95
        hints "java.lang.outofmemoryerror", "outofmemoryerror"
        pattern r"OutOfMemoryError(?:: (?P<what>[\w ]+))?"
        cause "the JVM ran out of memory ({what|heap})"
        fix "raise `-Xmx` (or the daemon's `org.gradle.jvmargs`) if the machine has that much, or do less at once"
        like "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space";
    OutOfMemory 96
        hints "out of memory: kill", "oom-kill", "oomkilled", "oom killed", "oom killer",
            "memory cgroup out of memory"
        pattern r"out of memory: kill|oom-kill|\bOOMKilled\b|\boom killed|oom.killer|Memory cgroup out of memory"
        cause "the kernel killed it since memory ran out"
        fix "raise the memory limit of the process, or make it use less (fewer jobs at once, smaller batches)"
        like "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
            "[91022.1] Out of memory: Killed process 4411 (node) total-vm:9123456kB";
    OutOfMemory 95
        hints "allowed memory size"
        pattern r"Allowed memory size of (?P<bytes>\d+) bytes exhausted"
        cause "PHP reached its memory limit of {bytes} bytes"
        fix "raise `memory_limit` for this call (`php -d memory_limit=-1 …`), or do less at once"
        like "PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes)";
    OutOfMemory 92
        hints "killed signal terminated program", "signal: 9, sigkill", "sigkill: kill", "signal: killed"
        pattern r"Killed signal terminated program (?P<program>\S+)|\(signal: 9, SIGKILL: kill\)|/(?:link|compile|asm|cgo): signal: killed"
        cause "a compiler was killed by the kernel, most likely since memory ran out"
        fix "run fewer jobs at once (`-j2`), or give the machine or container more memory"
        like "gcc: fatal error: Killed signal terminated program cc1",
            "go build: /usr/local/go/pkg/tool/linux_amd64/link: signal: killed";
    OutOfMemory 92
        hints "cannot allocate memory", "std::bad_alloc", "memoryerror", "memory exhausted",
            "virtual memory exhausted", "enomem", "out of memory", "unable to allocate", "memory allocation of"
        pattern r"cannot allocate memory|std::bad_alloc|\bMemoryError\b|memory exhausted|\bENOMEM\b|out of memory|memory allocation of \d+ bytes failed|unable to allocate [\d.]+ ?[KMGT]i?B"
        cause "memory ran out"
        fix "raise the memory limit of the process, or make it use less (fewer jobs at once, smaller batches)"
        like "fork: Cannot allocate memory",
            "numpy.core._exceptions.MemoryError: Unable to allocate 7.45 GiB for an array",
            "memory allocation of 8589934592 bytes failed";
    OutOfMemory 94
        hints "ineffective mark-compacts", "err_worker_out_of_memory", "reaching memory limit", "paging file is too small",
            "failed to allocate", "llvm error: out of memory", "insufficient memory"
        pattern r"Ineffective mark-compacts near heap limit|ERR_WORKER_OUT_OF_MEMORY|due to reaching memory limit|paging file is too small|LLVM ERROR: out of memory|failed to allocate (?:memory|\d+ bytes)"
        cause "memory ran out"
        fix "raise the memory limit of the process if the machine has that much, or let it do less at once"
        like "FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory",
            "Error [ERR_WORKER_OUT_OF_MEMORY]: Worker terminated due to reaching memory limit: JS heap out of memory";
    Killed 86
        hints "signal sigkill", "signal=sigkill", "terminated abruptly", "exit code -9", "killed by signal: 9",
            "returned -9", "signal 9"
        pattern r"(?:npm (?:ERR!|error) )?signal SIGKILL|signal=SIGKILL|terminated abruptly while the future was running|(?:exit code|returned|status) -9\b|SIGKILL\(-9\)"
        cause "a program was killed from outside (signal 9), most often by the kernel since memory ran out"
        fix "look for the out-of-memory killer in the kernel's log or the container's state; give it more memory, or let fewer workers run at once"
        like "npm error signal SIGKILL",
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.";
    Crashed 92
        hints "internal compiler error", "compiler unexpectedly panicked", "fatal error has been detected by the java",
            "fatal python error", "failed to launch the browser process", "internalerror>"
        pattern r"internal compiler error|compiler unexpectedly panicked|fatal error has been detected by the Java Runtime|Fatal Python error: (?P<what>[^\r\n]+)|Failed to launch the browser process|INTERNALERROR>"
        cause "a tool itself crashed: {what|see the line}"
        fix "run it again; if it repeats, try another version of the tool, and check what the machine gives it (memory, libraries)"
        like "# A fatal error has been detected by the Java Runtime Environment:",
            "gcc: internal compiler error: Segmentation fault signal terminated program cc1plus";
    OutOfMemory 86
        hints "gc overhead limit", "low on resource: memory", "memory limit"
        pattern r"GC overhead limit exceeded|The node was low on resource: memory|exceeded? (?:its )?memory limit|memory limit (?:was )?exceeded"
        cause "memory ran out"
        fix "raise the memory limit of the process, or make it use less"
        like "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84Mi.";

    DiskFull 96
        hints "no space left on device", "enospc"
        pattern r"no space left on device|ENOSPC"
        cause "the disk is full (or has no inodes left)"
        fix "free space where it writes: old images, caches and working directories first (`df -h`, `df -i`, `docker system df`)"
        like "write /var/lib/docker/tmp/x: no space left on device",
            "npm ERR! ENOSPC: no space left on device, write";
    DiskFull 92
        hints "disk quota exceeded", "edquot"
        pattern r"disk quota exceeded|EDQUOT"
        cause "the disk quota of the user is used up"
        fix "free space in what the quota counts, or raise it"
        like "cp: error writing '/home/ci/out.tar': Disk quota exceeded";
    DiskFull 90
        hints "disk is full", "disk full", "not enough disk space", "insufficient disk space",
            "don't have enough free space", "not enough free space", "ephemeral-storage", "diskpressure",
            "disk space", "not enough space"
        pattern r"disk (?:is )?full|(?:not enough|insufficient) (?:free )?(?:disk )?space|don't have enough free space|low on resource: ephemeral-storage|DiskPressure|ran out of disk space"
        cause "the disk is full"
        fix "free space where it writes: old images, caches and working directories first"
        like "E: You don't have enough free space in /var/cache/apt/archives/.";
    DiskFull 90
        hints "could not extend file", "could not write to file"
        pattern r#"could not (?:extend|write to) file "[^"]+".*(?:space|full)"#
        cause "the database's disk is full"
        fix "enlarge the volume of the database, or delete what it no longer needs"
        like r#"ERROR:  could not extend file "base/16384/24901": wrote only 4096 of 8192 bytes at block 12; check free disk space"#;

    Crashed 90
        hints "segmentation fault", "sigsegv", "segfault", "bus error", "illegal instruction"
        pattern r"segmentation fault|SIGSEGV|segfault|\bbus error\b|illegal instruction"
        cause "a program crashed in its own code (a memory fault)"
        fix "run it with a debugger or a sanitizer on the same input; native extensions that were built for another system are a usual reason"
        like "./run.sh: line 4: 2211 Segmentation fault      (core dumped) ./bin/render",
            "panic: runtime error: invalid memory address or nil pointer dereference [signal SIGSEGV: segmentation violation]";
    Crashed 86
        hints "exec format error"
        pattern r"exec format error"
        cause "a program was built for another kind of processor, or is no program"
        fix "build it for the machine it runs on (`docker build --platform`), or add the first line (`#!`) to the script"
        like "exec /usr/local/bin/docker-entrypoint.sh: exec format error";
    Crashed 78
        hints "panic:", "panicked at"
        pattern r"^(?:\S+ )?panic: (?P<what>[^\r\n]+)|panicked at (?P<where>[^\r\n]+)"
        cause "a program panicked: {what/where}"
        fix "follow the stack trace below the line to the code that did it"
        like "panic: runtime error: index out of range [5] with length 5",
            "thread 'main' panicked at src/main.rs:41:10:";
    Crashed 70
        hints "core dumped", "aborted", "assertion `", "terminate called"
        pattern r"\bcore dumped\b|Aborted\s*(?:\(|$)|Assertion `[^']+' failed|terminate called (?:after|without)"
        cause "a program aborted itself"
        fix "check the lines above it for what it complained of"
        like "Aborted (core dumped)",
            "terminate called after throwing an instance of 'std::runtime_error'";
    Crashed 65
        hints "error:", "exception:", "exception in thread", "unhandled", "uncaught"
        pattern r"^(?:Unhandled|Uncaught)\b.*|^Exception in thread \x22[^\x22]*\x22 [\w.$]+.*|^(?:[A-Za-z_]\w*\.)*(?:(?:Type|Reference|Range|Value|Attribute|Name|Index|Key|Runtime|ZeroDivision|Recursion|NoMethod|Argument|Lookup|Unicode\w*|NotImplemented|UnboundLocal|Assertion|OS|Eval)(?:Error|Exception))\b: .*|NullPointerException|IllegalStateException|IllegalArgumentException"
        cause "a program ended with an unhandled exception"
        fix "follow the stack trace to the failing code"
        like "AttributeError: 'NoneType' object has no attribute 'split'",
            "TypeError: Cannot read properties of undefined (reading 'map')";

    Killed 70
        hints "killed"
        pattern r"^(?:\S+: line \d+: +)?(?:\d+ )?Killed\b(?:\s+\S.*)?$|\bsignal 9\b|\bSIGKILL\b"
        cause "a program was killed from outside (signal 9), most often by the kernel since memory ran out"
        fix "check the kernel's log (`dmesg`) for the out-of-memory killer; give it more memory, or make it use less"
        like "./build.sh: line 12:  4411 Killed                  node build.js";
    Killed 66
        hints "terminated", "sigterm", "signal 15"
        pattern r"^(?:\S+: line \d+: +)?(?:\d+ )?Terminated\b(?:\s+\S.*)?$|\bsignal 15\b|\bSIGTERM\b"
        cause "a program was told to end from outside (signal 15)"
        fix "find out who ended it: a time limit, a restart of the machine or another step"
        like "./serve.sh: line 3:  2201 Terminated              ./bin/server";
    PortInUse 88
        hints "connection in use"
        pattern r"Connection in use: \(\S+ (?P<port>\d+)\)"
        cause "port {port} is already in use"
        fix "stop what holds port {port} (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "[71] [ERROR] Connection in use: ('0.0.0.0', 8000)";
    OutOfMemory 88
        hints "oom"
        pattern r"\bOOM command not allowed|(?-i:\bOOM\b)"
        cause "memory ran out"
        fix "raise the memory limit of what ran out (the line says which), or let it hold less"
        like "ReplyError: OOM command not allowed when used memory > 'maxmemory'.";
    Killed 72
        hints "137"
        pattern r"(?:exit(?:ed)?(?: with)?(?: code| status)?:?|non-zero code:|returned|errno) 137\b"
        cause "a process was killed with signal 9 (it ended with 137), most often because memory ran out"
        fix "look for the out-of-memory killer in the kernel's log or the container's state; give it more memory, or make it use less"
        like "The command '/bin/sh -c npm run build' returned a non-zero code: 137";
    Crashed 84
        hints "all goroutines are asleep", "stack overflow", "stackoverflowerror", "maximum call stack", "139"
        pattern r"all goroutines are asleep|stack overflow|StackOverflowError|Maximum call stack size exceeded|(?:exit(?:ed)?(?: with)?(?: code| status)?:?|non-zero code:) 139\b"
        cause "a program crashed"
        fix "follow the stack trace to the failing code"
        like "fatal error: all goroutines are asleep - deadlock!",
            "RangeError: Maximum call stack size exceeded";
    Crashed 66
        hints "error", "exception", "undefined method"
        pattern r"^(?:Caused by: )?[A-Za-z_][\w.:$\\]*(?:Error|Exception)(?:: [^\r\n]*)?\s*$|^(?:PHP )?Fatal error: +Uncaught\b|^Unhandled (?:exception|rejection|promise)|undefined method [`'](?P<method>\w+)|^\*\* \(\w+Error\)"
        cause "a program ended with an unhandled exception"
        fix "follow the stack trace to the failing code"
        like "shop.errors.PriceError: negative price",
            "** (RuntimeError) no such plan",
            "app.rb:4:in `run': undefined method `total' for nil (NoMethodError)";
    PortInUse 92
        hints "is already used", "already listening", "already bound", "port already", "listen port", "already taken"
        pattern r"https?://\S+:(?P<port>\d{2,5})\S* is already used|port (?:\d+ )?(?:is )?already (?:used|bound|taken|open|listening)|(?:another|other) (?:process|server|instance) is (?:already )?listening|already listening on"
        cause "the port {port|it wants} is already in use"
        fix "stop what holds the port (`ss -ltnp` shows it; a process of an earlier run perhaps), or use another port"
        like "Error: http://127.0.0.1:8080 is already used, make sure that nothing is running on the port/url or set reuseExistingServer:true in config.webServer.";
}
