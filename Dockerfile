# docker build -t lockkeeper .
# docker run -d -p 127.0.0.1:8080:8080 -v lockkeeper:/var/lib/lockkeeper lockkeeper

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin lockkeeper && strip target/dist/lockkeeper

# The client alone, for CI jobs: docker build --target client -t lockkeeper-client .
FROM rust:1.95-slim-bookworm AS build-client
WORKDIR /src
COPY . .
RUN cargo build --package lockkeeper --profile small --no-default-features --locked --bin lockkeeper

FROM debian:bookworm-slim AS client
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-client /src/target/small/lockkeeper /usr/local/bin/lockkeeper
COPY LICENSE /usr/share/doc/lockkeeper/
ENTRYPOINT ["lockkeeper"]

FROM debian:bookworm-slim
# git and ssh for step registries and fixes. Steps find nothing but what is in this image: build on top of it.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 lockkeeper \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/lockkeeper --shell /usr/sbin/nologin lockkeeper \
 && install -d -o lockkeeper -g lockkeeper -m 700 /var/lib/lockkeeper
COPY --from=build /src/target/dist/lockkeeper /usr/local/bin/lockkeeper
COPY LICENSE /usr/share/doc/lockkeeper/
USER 10001:10001
WORKDIR /var/lib/lockkeeper
ENV LOCKKEEPER_LISTEN=0.0.0.0:8080 LOCKKEEPER_DATA_DIR=/var/lib/lockkeeper/data
VOLUME /var/lib/lockkeeper
EXPOSE 8080
# Over plain HTTP: with TLS, set LOCKKEEPER_TLS_PLAIN_LISTEN=127.0.0.1:8081, which is asked then.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["bash", "-c", "\
address=${LOCKKEEPER_TLS_PLAIN_LISTEN:-$LOCKKEEPER_LISTEN} && exec 3<>/dev/tcp/127.0.0.1/${address##*:} \
&& printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 \
&& read -r line <&3 && [[ $line == *' 200 '* ]]"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["lockkeeper"]
CMD ["serve"]
