//! The program: runs the Demo operator, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    demo_operator::operator().main()
}
