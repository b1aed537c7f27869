//! The program: runs the Guestbook operator, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    guestbook_operator::operator().main()
}
