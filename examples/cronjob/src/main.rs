//! The program: runs the CronJob operator, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    cronjob_operator::operator().main()
}
