//! Exploration of operators: a correct one stays green, buggy ones are found.

mod corpus;
mod memcached;
mod report;
