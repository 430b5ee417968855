# SPDX-License-Identifier: Apache-2.0
"""Tests logins with right, wrong and missing secrets, and with invalid secrets files, over every fabric that
needs no hardware."""

import os
import subprocess
import time

import pytest

from .programs import BUILD, PLUGIN, Target, run, run_under_nbdkit

WSSCTL = BUILD / "wssctl"


def secret_file(path, *lines, mode=0o600):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)
    return path


def fresh(name):
    """Creates a line of a secrets file in the way an operator would."""
    return run(WSSCTL, "secret", name).stdout.strip()


@pytest.fixture
def keys(tmp_path):
    return {name: fresh(name) for name in ("alice", "bob")}


@pytest.fixture
def guarded(listen, tmp_path, keys):
    """A target that has the secrets of alice and bob."""
    book = secret_file(tmp_path / "secrets", "# who may", "", keys["alice"], keys["bob"])
    with Target(listen, {"disk": "ram:32M"}, tmp_path, "--secrets", str(book), "--name", "vault") as running:
        yield running


def attempt(target, *words, command="true"):
    """Tries to log in with nbdkit's plugin. Returns the exit status, the messages, and the time taken."""
    started = time.monotonic()
    done = run_under_nbdkit(command, f"target={target.address}", "volume=disk", *words)
    return done.returncode, done.stderr, time.monotonic() - started


def test_client_with_its_secret_logs_in_and_does_io(guarded, keys, tmp_path):
    mine = secret_file(tmp_path / "alice.secret", keys["alice"])
    status, text, _ = attempt(guarded, f"secret-file={mine}", "channels=3", command=
                              'qemu-io -f raw -c "write -P 0x5a 1M 256k" -c "read -P 0x5a 1M 256k" "$uri"')
    assert status == 0, text
    assert "authentication is on: 2 initiators" in guarded.log.read_text()


@pytest.mark.parametrize("line, said, logged", [
    ("alice:this-is-not-the-secret-of-alice", "could not prove that it knows the secret of 'alice'", "it has another secret"),
    ("mallory:this-is-a-secret-of-nobody", "could not prove that it knows the secret of 'mallory'", "unknown initiator"),
])
def test_both_ends_report_a_wrong_secret_and_the_target_keeps_serving(guarded, keys, tmp_path, line, said, logged):
    status, text, seconds = attempt(guarded, f"secret-file={secret_file(tmp_path / 'wrong', line)}")
    assert status != 0
    assert said in text, text
    assert seconds < 15
    assert attempt(guarded, f"secret-file={secret_file(tmp_path / 'right', keys['alice'])}")[0] == 0
    log = guarded.log.read_text()
    assert f"left after the challenge: {logged}" in log, log
    assert line.split(":")[1] not in log + text


def test_client_refuses_a_target_of_another_name_than_the_given_one(guarded, keys, tmp_path):
    mine = secret_file(tmp_path / "alice.secret", keys["alice"])
    status, text, _ = attempt(guarded, f"secret-file={mine}", "target-name=safe")
    assert status != 0 and "the target there is 'vault', but 'safe' is expected" in text, text
    assert attempt(guarded, f"secret-file={mine}", "target-name=vault")[0] == 0
    status, text, _ = attempt(guarded, "target-name=vault")
    assert status != 0 and "target name 'vault' without a secret" in text, text
    discover = [WSSCTL, "discover", guarded.address, "--secret-file", mine, "--target-name"]
    assert "disk" in run(*discover, "vault").stdout
    assert "but 'safe' is expected" in run(*discover, "safe", check=False).stderr


def test_target_checks_its_name_and_the_names_of_version_1(tmp_path, keys):
    book = secret_file(tmp_path / "book", keys["alice"])
    command = [BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "v=ram:1M"]
    for words, said in ((["--auth-v1", "alice"], "auth_v1 without secrets"), (["--auth-v1", "a b", "--secrets", book], "'a b' is not a valid"),
                        (["--name", "n" * 64, "--secrets", book], "cannot be the name of a target")):
        done = run(*command, *words, check=False)
        assert done.returncode != 0 and said in done.stderr, done.stderr
    with Target("tcp://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(book), "--auth-v1", "alice") as target:
        assert "VERSION 1 OF THE AUTHENTICATION IS ALLOWED for 'alice'" in target.log.read_text()


def test_error_without_a_secret_names_the_missing_option(guarded):
    status, text, _ = attempt(guarded)
    assert status != 0
    assert "requires authentication" in text, text


def test_client_with_a_secret_rejects_a_target_without_authentication(listen, tmp_path, keys):
    with Target(listen, {"disk": "ram:32M"}, tmp_path) as anyone:
        mine = secret_file(tmp_path / "mine", keys["alice"])
        status, text, _ = attempt(anyone, f"secret-file={mine}")
        assert status != 0
        assert "the target does not authenticate" in text, text
        assert "AUTHENTICATION IS OFF" in anyone.log.read_text()


@pytest.mark.parametrize("mode, lines, said", [
    (0o640, ["a:0123456789abcdef"], "mode 0640 lets others"),
    (0o600, ["a:short"], "16 to 256 printable"),
    (0o600, ["no colon here"], ":1: not of the form NAME:SECRET"),
    (0o600, ["a:0123456789abcdef", "b:0123456789abcdef"], "an initiator's file has one line"),
    (0o600, [], "contains no secret"),
])
def test_client_refuses_an_unsafe_or_malformed_secret_file_before_it_connects(tmp_path, mode, lines, said):
    path = secret_file(tmp_path / "bad", *lines, mode=mode)
    done = run_under_nbdkit("true", "target=tcp://127.0.0.1:1", "volume=v", f"secret-file={path}")
    assert done.returncode != 0
    assert said in done.stderr and str(path) in done.stderr, done.stderr
    assert "0123456789abcdef" not in done.stderr


def test_target_refuses_a_secrets_file_that_others_can_read(tmp_path):
    path = secret_file(tmp_path / "book", "a:0123456789abcdef", mode=0o644)
    done = run(BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "v=ram:1M",
               "--secrets", str(path), check=False)
    assert done.returncode == 1
    assert "mode 0644 lets others" in done.stderr, done.stderr


def test_target_reloads_its_secrets_without_a_restart(tmp_path, keys):
    book = secret_file(tmp_path / "secrets", keys["bob"])
    control = tmp_path / "control.sock"
    mine = secret_file(tmp_path / "alice.secret", keys["alice"])
    with Target("tcp://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(book), "--control",
                str(control)) as target:
        assert attempt(target, f"secret-file={mine}")[0] != 0
        secret_file(book, keys["bob"], keys["alice"])
        assert "initiators known: 2" in run(WSSCTL, "--control", str(control), "auth", "reload").stdout
        # nbdkit starts the command before its plugin has logged in, so the command polls.
        listed = f'{WSSCTL} --control {control} session list | grep -q "alice .* yes"'
        assert attempt(target, f"secret-file={mine}", command=
                       f"for try in $(seq 200); do {listed} && exit 0; sleep 0.05; done; exit 1")[0] == 0
        secret_file(book, "broken")
        done = run(WSSCTL, "--control", str(control), "auth", "reload", check=False)
        assert done.returncode == 1 and "nothing was changed" in done.stderr, done.stderr
        assert attempt(target, f"secret-file={mine}")[0] == 0


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_secret_is_replaced_while_its_session_stays_up(tmp_path, keys, scheme):
    control = tmp_path / "control.sock"
    wssctl = f"{WSSCTL} --control {control}"
    both = secret_file(tmp_path / "both", keys["alice"], fresh("alice"))
    former, following = both.read_text().splitlines()
    book = secret_file(tmp_path / "secrets", former)
    reload = f'{wssctl} auth reload | grep "sessions ended" && exit 1'
    with Target(f"{scheme}://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(book), "--control", str(control)) as target:
        logged_in = f'for try in $(seq 200); do {wssctl} session list | grep -q "alice .* yes" && break; sleep 0.05; done'
        status, text, _ = attempt(target, f"secret-file={secret_file(tmp_path / 'former', former)}", command=
                                  f'{logged_in}; cp -p {both} {book}; {reload}; qemu-io -f raw -c "write -P 0x5a 1M 256k" "$uri"')
        assert status == 0, text
        mine = f"secret-file={secret_file(tmp_path / 'following', following)}"
        status, text, _ = attempt(target, mine, command=
                                  f'{logged_in}; {wssctl} session list | grep -q "yes (second secret)" || exit 1; '
                                  f'cp -p {tmp_path / "following"} {book}; {reload}; qemu-io -f raw -c "read -P 0x5a 1M 256k" "$uri"')
        assert status == 0, text
        assert attempt(target, f"secret-file={tmp_path / 'former'}")[0] != 0


def test_wssctl_warns_that_authentication_is_off(tmp_path):
    control = tmp_path / "control.sock"
    with Target("tcp://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--control", str(control)):
        assert "ANY PEER THAT REACHES THE TARGET MAY USE IT" in run(WSSCTL, "--control", str(control), "auth", "show").stdout


def test_no_secret_appears_in_a_command_line_or_environment(guarded, keys, tmp_path):
    mine = secret_file(tmp_path / "alice.secret", keys["alice"])
    process = subprocess.Popen(["nbdkit", "-f", "-U", str(tmp_path / "nbd"), str(PLUGIN), f"target={guarded.address}",
                                "volume=disk", f"secret-file={mine}"], stderr=subprocess.DEVNULL)
    try:
        lines = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in (process.pid, guarded.process.pid)]
        environment = open(f"/proc/{process.pid}/environ", "rb").read()
    finally:
        process.terminate()
        process.wait(20)
    secret = keys["alice"].split(":")[1].encode()
    assert not any(secret in each for each in [*lines, environment])
    assert os.path.exists(mine)


def test_access_list_lets_one_initiator_write_and_another_read_and_hides_the_volume_from_a_third(tmp_path, keys):
    lines = {**keys, "carol": fresh("carol")}
    book = secret_file(tmp_path / "secrets", *lines.values())
    mine = {name: secret_file(tmp_path / name, line) for name, line in lines.items()}
    control, state = tmp_path / "control.sock", tmp_path / "state.json"

    def write(target, name):
        return attempt(target, f"secret-file={mine[name]}", command='qemu-io -f raw -c "write -P 7 0 64k" "$uri"')

    def read(target, name):
        return attempt(target, f"secret-file={mine[name]}", command='qemu-io -r -f raw -c "read -P 7 0 64k" "$uri"')

    more = ["--secrets", str(book), "--control", str(control), "--state", str(state)]
    image = f"aio:{tmp_path}/disk.img,size=32M,create"
    with Target("tcp://127.0.0.1:0", {"disk": image}, tmp_path, *more) as target:
        access = [WSSCTL, "--control", control, "volume", "access", "disk"]
        assert "every initiator" in run(*access).stdout
        run(*access, "alice=rw", "bob=ro")
        assert write(target, "alice")[0] == 0
        assert write(target, "bob")[0] != 0
        assert read(target, "bob")[0] == 0, "bob must be able to read what alice wrote"
        status, text, _ = read(target, "carol")
        assert status != 0 and "has no volumes" in text, text
        assert "'carol' is not of the form" in run(*access, "carol", check=False).stderr
    # The access list must survive a restart of the target.
    with Target("tcp://127.0.0.1:0", {"disk": image}, tmp_path, *more) as target:
        assert "bob=ro" in run(*access).stdout
        assert write(target, "bob")[0] != 0
        run(*access, "--clear")
        assert write(target, "carol")[0] == 0


def test_target_checks_the_access_rules_of_its_command_line(tmp_path):
    for rule, said in (("disk:a=maybe", "not of the form INITIATOR=rw"), ("other:a=rw", "there is no --volume other"),
                       ("disk", "write VOLUME:INITIATOR=rw")):
        done = run(BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "disk=ram:1M",
                   "--access", rule, check=False)
        assert done.returncode == 2 and said in done.stderr, done.stderr
