//! The image of an operator.

use crate::model::Model;

/// Returns a Dockerfile that builds a static binary, and an image with nothing but it.
pub(super) fn dockerfile(model: &Model) -> String {
    let name = &model.name;
    format!(
        "FROM rust:1-alpine AS build\n\
         RUN apk add --no-cache musl-dev\n\
         WORKDIR /src\n\
         COPY . .\n\
         RUN cargo build --release --locked --bin {name} \\\n\
         \x20   && cp target/release/{name} /manager\n\
         \n\
         FROM scratch\n\
         COPY --from=build /manager /manager\n\
         USER 65532:65532\n\
         ENTRYPOINT [\"/manager\"]\n"
    )
}
