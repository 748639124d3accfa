# Builds Tandem and packs it with what it needs to run.
#
#   docker build -t tandem .
#   docker run -p 8000-8002:8000-8002 -v /path/to/models:/models:ro tandem
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY deploy/install.sh deploy/packages-build.txt deploy/
RUN deploy/install.sh build
COPY . .
RUN cmake --preset release -DBUILD_TESTING=OFF \
 && cmake --build --preset release --target tandem \
 && install -D --strip build/release/server/tandem /out/usr/local/bin/tandem \
 && ln -s tandem /out/usr/local/bin/tritonserver

FROM ${BASE_IMAGE}
COPY deploy/install.sh deploy/packages-run.txt /tmp/deploy/
RUN /tmp/deploy/install.sh run \
 && rm -rf /tmp/deploy /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
 && groupadd --gid 1000 tandem \
 && useradd --uid 1000 --gid 1000 --no-create-home --shell /usr/sbin/nologin tandem
COPY --from=build /out/ /
USER 1000:1000
EXPOSE 8000 8001 8002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["tandem", "health", "--addr", "127.0.0.1:8001"]
ENTRYPOINT ["tandem"]
CMD ["--model-repository=/models"]
