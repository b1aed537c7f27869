#!/usr/bin/env python3
"""Replays the recorded cases against `windlass cluster` and checks them against docs/conformance.md.

  conformance.py DIRECTORY-OF-CONFORM.PY PATH-TO-WINDLASS [GLOB]

A case may fail only if docs/conformance.md names it (a line "- `case`: reason"). Cases wait for what controllers do;
one that fails beside others is replayed once more alone, and the answer then counts.
"""
import os, re, subprocess, sys, tempfile, time


def start(windlass, arguments, scratch):
    kubeconfig = os.path.join(scratch, "kubeconfig")
    if os.path.exists(kubeconfig):
        os.remove(kubeconfig)
    process = subprocess.Popen([windlass, "cluster", "--kubeconfig", kubeconfig, *arguments],
                               stdout=subprocess.DEVNULL)
    deadline = time.time() + 30
    while not os.path.exists(kubeconfig):
        if process.poll() is not None or time.time() > deadline:
            sys.exit("windlass cluster did not become ready")
        time.sleep(0.05)
    return process, kubeconfig


def replay(directory, kubeconfig, glob, jobs):
    command = [sys.executable, os.path.join(directory, "conform.py"), "--kubeconfig", kubeconfig,
               "--only", glob, "--jobs", str(jobs)]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=420)
    except subprocess.TimeoutExpired:
        sys.exit("the cases of %s took too long" % glob)
    print(result.stdout, end="")
    return re.findall(r"^FAIL (\S+)", result.stdout, re.M)


def main():
    directory, windlass = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else None
    here = os.path.dirname(os.path.abspath(__file__))
    known = set(re.findall(r"^- `([\w-]+)`:", open(os.path.join(here, "../docs/conformance.md")).read(), re.M))
    areas = "core list watch patch delete builtin sub discovery auth crd ssa".split()
    runs = [(["--no-controllers"], [only] if only else [a + "-*" for a in areas]),
            (["--nodes", "0"], [] if only else ["cluster-*"])]
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for arguments, globs in runs:
            if not globs:
                continue
            process, kubeconfig = start(windlass, arguments, scratch)
            try:
                for glob in globs:
                    print("--", glob)
                    for case in replay(directory, kubeconfig, glob, 4):
                        if case in known or replay(directory, kubeconfig, case, 1):
                            failed.append(case)
                        else:
                            print("as recorded when replayed alone:", case)
            finally:
                process.terminate()
                process.wait(10)
    unexpected = sorted(set(failed) - known)
    if unexpected:
        sys.exit("not as recorded, and not explained in docs/conformance.md: " + ", ".join(unexpected))
    print("as recorded, apart from what docs/conformance.md explains: " + (", ".join(sorted(set(failed))) or "nothing"))


main()
