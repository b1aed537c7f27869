//! Mistakes that do not compile: one sentence each, at the place of the mistake.

#[test]
fn mistakes_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/misuse/*.rs");
}
