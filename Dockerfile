# The sandbox image. Targets: `full` (the default: with screen, browser and speech recognition) and `slim` (without).
#
# Layers that change rarely come first: a change of the runner rebuilds only the last layers.
#   docker build -t sandpiper . --build-arg NPM_CONFIG_REGISTRY="$(npm config get registry)" \
#     --build-arg IMAGE_BUILD_VERSION="$(scripts/image-version)"

# Every version in one place; the programs of npm have theirs, with a checksum of every package, in the lock files of image/.
# test/image/pins.test.ts compares them with package.json. code-server and agent-browser determine the version of Node.
# A tag can be replaced: releases build with DEBIAN_DIGEST=@sha256:..., the digest that the registry gives for it.
ARG DEBIAN=debian:bookworm-slim
ARG DEBIAN_DIGEST=
ARG NODE_VERSION=24.21.0
ARG NODE_SHA256_AMD64=61ecf27ad70afee991b671c28561eb497028294a67d132f9bbaac9ad73f81d3b
ARG NODE_SHA256_ARM64=fba3076c16d21e5d814577436bdcb782b9b66bed09c6fa8278298e8933288bbb
ARG NPM_VERSION=10.9.9
ARG NPM_SHA256=c80bd097147cce32e31010b791bab8c71a26a5e10668210ec9d2e7f4c7cea2a1
ARG TTYD_VERSION=1.7.7
ARG TTYD_SHA256_AMD64=8a217c968aba172e0dbf3f34447218dc015bc4d5e59bf51db2f2cd12b7be4f55
ARG TTYD_SHA256_ARM64=b38acadd89d1d396a0f5649aa52c539edbad07f4bc7348b27b4f4b7219dd4165
ARG WHISPER_TAG=v1.7.6
# OpenCode, terminals and editor run as this user, who can neither read the runner's memory nor install packages. `root`:
# they run as root like the runner, which `sandpiper doctor` warns of.
ARG AGENT_USER=agent

# 1. System packages.
FROM ${DEBIAN}${DEBIAN_DIGEST} AS system
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      bash build-essential ca-certificates curl git gnupg iptables jq openssh-client procps python3 python3-pip python3-venv \
      ripgrep sudo unzip wget xz-utils \
 && rm -rf /var/lib/apt/lists/*

# 2. Node and npm: from the npm registry, by version and checksum.
FROM system AS node
ARG NODE_VERSION NODE_SHA256_AMD64 NODE_SHA256_ARM64 NPM_VERSION NPM_SHA256 TARGETARCH=amd64
# The builder chooses the registry, which may be a mirror.
ARG NPM_CONFIG_REGISTRY
ARG CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
RUN set -eu; cd /tmp; \
    : "${NPM_CONFIG_REGISTRY:?build with --build-arg NPM_CONFIG_REGISTRY=$(printf '\044')(npm config get registry)}"; \
    case "$TARGETARCH" in \
      amd64) arch=x64; sum=$NODE_SHA256_AMD64 ;; \
      arm64) arch=arm64; sum=$NODE_SHA256_ARM64 ;; \
      *) echo "no Node for $TARGETARCH" >&2; exit 1 ;; \
    esac; \
    curl -fsSLo node.tgz "${NPM_CONFIG_REGISTRY%/}/node-linux-$arch/-/node-linux-$arch-$NODE_VERSION.tgz"; \
    curl -fsSLo npm.tgz "${NPM_CONFIG_REGISTRY%/}/npm/-/npm-$NPM_VERSION.tgz"; \
    echo "$sum  node.tgz" | sha256sum -c; echo "$NPM_SHA256  npm.tgz" | sha256sum -c; \
    tar -xzf node.tgz -C /usr/local --strip-components=1 package/bin package/include package/share; \
    mkdir -p /usr/local/lib/node_modules/npm; \
    tar -xzf npm.tgz -C /usr/local/lib/node_modules/npm --strip-components=1; \
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm; \
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx; \
    rm node.tgz npm.tgz; node --version; npm --version

# 3. Bun, 4. OpenCode and agent-browser. They use the browser of the system, so none is downloaded.
FROM node AS agent
ARG NPM_CONFIG_REGISTRY
ARG CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
COPY image/agent/ /usr/local/lib/agent/
RUN npm ci --prefix /usr/local/lib/agent --no-fund --no-audit \
 && for name in bun bunx opencode agent-browser; do \
      ln -s "../lib/agent/node_modules/.bin/$name" "/usr/local/bin/$name" || exit 1; \
    done \
 && bun --version && opencode --version && rm -rf /root/.npm

# 5. code-server is built in its own stage and copied without its compilers. 6. ttyd is one file. A program that cannot be
# built or fetched is recorded in /usr/share/sandpiper/missing and left out; `slim` accepts that, `full` fails.
FROM node AS code-server
ARG NPM_CONFIG_REGISTRY
ARG CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
ARG WITH_CODE_SERVER=yes
COPY image/code-server/ /out/usr/local/lib/code-server/
RUN mkdir -p /out/usr/local/bin /out/usr/share/sandpiper/missing; \
    if [ "$WITH_CODE_SERVER" = yes ] && apt-get update \
      && apt-get install -y --no-install-recommends \
           libkrb5-dev libsecret-1-dev libx11-dev libxkbfile-dev pkg-config \
      && npm_config_nodedir=/usr/local npm_config_unsafe_perm=true npm ci --prefix /out/usr/local/lib/code-server \
           --no-fund --no-audit; \
    then \
      ln -s ../lib/code-server/node_modules/.bin/code-server /out/usr/local/bin/code-server; \
    else \
      rm -rf /out/usr/local/lib/code-server; \
      echo "code-server was not built" > /out/usr/share/sandpiper/missing/code-server; \
    fi

FROM system AS ttyd
ARG TTYD_VERSION TTYD_SHA256_AMD64 TTYD_SHA256_ARM64 TARGETARCH=amd64
ARG TTYD_URL=https://github.com/tsl0922/ttyd/releases/download
ARG CURL_CA_BUNDLE
RUN mkdir -p /out/usr/local/bin /out/usr/share/sandpiper/missing; cd /out/usr/local/bin; \
    case "$TARGETARCH" in arm64) file=ttyd.aarch64; sum=$TTYD_SHA256_ARM64 ;; *) file=ttyd.x86_64; sum=$TTYD_SHA256_AMD64 ;; esac; \
    if curl -fsSL --retry 2 -o ttyd "$TTYD_URL/$TTYD_VERSION/$file" && echo "$sum  ttyd" | sha256sum -c; \
    then chmod 755 ttyd; \
    else rm -f ttyd; echo "ttyd $TTYD_VERSION was not fetched from $TTYD_URL" > /out/usr/share/sandpiper/missing/ttyd; \
    fi

FROM agent AS tools
COPY --from=code-server /out/ /
COPY --from=ttyd /out/ /

# 7. The compiled runner. A change of the source rebuilds this stage and those that copy from it.
FROM agent AS runner
WORKDIR /runner
ARG NPM_CONFIG_REGISTRY
ARG CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile
COPY . .
ARG COMMIT=unknown
RUN COMMIT="$COMMIT" bun run build

# 8. All our files in one tree: the binary, the workflow command, start.sh, OpenCode's files, and shell settings for login
# shells (profile.d) and for others such as the editor's (bash.bashrc).
FROM system AS ours
COPY --from=runner /runner/dist/sandpiper /out/usr/local/bin/sandpiper
COPY opencode-config/ /out/opencode-config/
COPY skills/ /out/opencode-config/skills/
COPY start.sh /out/start.sh
RUN set -eu; chmod 755 /out/start.sh; \
    printf '%s\n' '#!/bin/sh' '# The agent and its shells do not have SANDPIPER_STATE_DIR in their environment.' \
      'SANDPIPER_STATE_DIR="${SANDPIPER_STATE_DIR:-/var/lib/sandpiper}" exec sandpiper workflow "$@"' \
      > /out/usr/local/bin/workflow; \
    chmod 755 /out/usr/local/bin/workflow; \
    mkdir -p /out/workspace /out/models/whisper /out/etc/profile.d; \
    printf '%s\n' \
      '# Prompt and colours for the shells of the sandbox.' \
      'PS1="\[\e[36m\]sandbox\[\e[0m\] \w \$ "' \
      'alias ll="ls -la --color=auto"' \
      > /out/etc/profile.d/sandpiper.sh; \
    { cat /etc/bash.bashrc; echo '. /etc/profile.d/sandpiper.sh'; } > /out/etc/bash.bashrc

# 9. The image without screen and speech recognition.
FROM tools AS slim
ARG AGENT_USER
RUN test "$AGENT_USER" = root || useradd --create-home --shell /bin/bash "$AGENT_USER"
COPY --from=ours /out/ /
ARG IMAGE_BUILD_VERSION=unversioned VERSION=0.2.0 COMMIT=unknown
ENV HOME=/root DISPLAY=:99 LANG=C.UTF-8 WORK_DIR=/workspace SANDPIPER_STATE_DIR=/var/lib/sandpiper \
    SANDPIPER_SERVICES=vscode,ttyd AGENT_USER=${AGENT_USER} IMAGE_BUILD_VERSION=${IMAGE_BUILD_VERSION}
LABEL org.opencontainers.image.title="sandpiper (slim)" org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${COMMIT} sandpiper.build=${IMAGE_BUILD_VERSION}
WORKDIR /workspace
EXPOSE 4096 9000
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s CMD curl -fsS "http://127.0.0.1:${GATEWAY_PORT:-9000}/health" || exit 1
ENTRYPOINT ["/bin/bash", "/start.sh"]

# 10. Speech recognition. Models are mounted at /models/whisper.
FROM system AS whisper
ARG WHISPER_TAG
ARG WHISPER_URL=https://github.com/ggml-org/whisper.cpp
ARG GIT_SSL_CAINFO
RUN apt-get update && apt-get install -y --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
RUN mkdir -p /out/usr/local/bin /out/usr/share/sandpiper/missing; \
    if git clone --quiet --depth 1 --branch "$WHISPER_TAG" "$WHISPER_URL" /src \
      && cmake -S /src -B /build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DWHISPER_BUILD_TESTS=OFF \
      && cmake --build /build --target whisper-cli -j "$(nproc)"; \
    then cp /build/bin/whisper-cli /out/usr/local/bin/; \
    else echo "whisper.cpp $WHISPER_TAG was not built from $WHISPER_URL" > /out/usr/share/sandpiper/missing/whisper; \
    fi

# 11. The screen and the browser.
FROM tools AS desktop
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      chromium ffmpeg fluxbox imagemagick novnc websockify x11vnc xdotool xvfb \
 && rm -rf /var/lib/apt/lists/*
COPY --from=whisper /out/ /

# 12. The complete image. Our files come last here too.
FROM desktop AS full
ARG ALLOW_MISSING=no
RUN test "$ALLOW_MISSING" = yes || ! grep -r . /usr/share/sandpiper/missing
ARG AGENT_USER
RUN test "$AGENT_USER" = root || useradd --create-home --shell /bin/bash "$AGENT_USER"
COPY --from=ours /out/ /
ARG IMAGE_BUILD_VERSION=unversioned VERSION=0.2.0 COMMIT=unknown
ENV HOME=/root DISPLAY=:99 LANG=C.UTF-8 WORK_DIR=/workspace SANDPIPER_STATE_DIR=/var/lib/sandpiper \
    SANDPIPER_SERVICES=all AGENT_USER=${AGENT_USER} AGENT_BROWSER_EXECUTABLE_PATH=/usr/bin/chromium \
    AGENT_BROWSER_PROFILE=/var/tmp/agent-browser-profile PLAYWRIGHT_BROWSERS_PATH=/ms-playwright \
    IMAGE_BUILD_VERSION=${IMAGE_BUILD_VERSION}
LABEL org.opencontainers.image.title="sandpiper" org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${COMMIT} sandpiper.build=${IMAGE_BUILD_VERSION}
WORKDIR /workspace
EXPOSE 4096 9000
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s CMD curl -fsS "http://127.0.0.1:${GATEWAY_PORT:-9000}/health" || exit 1
ENTRYPOINT ["/bin/bash", "/start.sh"]
