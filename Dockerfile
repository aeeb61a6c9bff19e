# The command in a container; it reads and writes in the folder that it is given:
#   docker run --rm --volume "$PWD:/models" --user "$(id -u):$(id -g)" xoptim model.onnx
ARG BASE=debian:stable-slim

FROM ${BASE} AS build
# A pinned version disappears from Debian with the next fix.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
COPY . /source
RUN python3 -m venv /opt/xoptim && /opt/xoptim/bin/pip install --no-cache-dir "/source[report]"

FROM ${BASE} AS runtime
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/xoptim /opt/xoptim
ENV PATH=/opt/xoptim/bin:$PATH
USER 1000:1000
WORKDIR /models
ENTRYPOINT ["xopt"]

# Built by `make image` only.
FROM runtime AS check
COPY examples/models/tiny_bert.onnx .
RUN test "$(id -u)" = 1000 && xopt tiny_bert.onnx -o /tmp/smaller.onnx --report /tmp/report.html --strict

FROM runtime
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="xoptim" \
      org.opencontainers.image.description="Optimizes ONNX graphs by patterns and verifies with onnxruntime that the result computes the same numbers" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.revision="$REVISION"
