//! GET of one object.

use super::{Answer, Call};
use crate::status::Result;

impl Call {
    pub(super) async fn get(&self) -> Result<Answer> {
        if let Some(version) = self.query.get("resourceVersion")
            && !version.is_empty()
        {
            let wanted = super::list_options::parse_version(version)
                .map_err(crate::status::Status::untyped)?;
            self.server.wait_for_revision(wanted).await?;
        }
        let entry = self.entry()?;
        self.answer_stored(200, &entry).await
    }
}
