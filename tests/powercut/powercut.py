#!/usr/bin/env python3
"""Cuts the power of a virtual machine again and again, and checks that a store survives.

One boot both checks what the last cut left and works on until the next. The program in the machine
(guest.cc) tells through a serial port what it recovered and which versions were acknowledged; this
script keeps the acknowledgements, kills the machine at a moment drawn from the seed, and judges.
docs/powercut.md says what that proves.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SILENCE_S = 120  # a machine that says nothing for so long hangs
BOOTS_MAX = 3  # of one machine, when its kernel hangs before it says anything
PATIENCE_S = 2  # how long the disk is waited for to have as many requests as it may
SHARDS = 8  # Ledger::kShards
DISK_BYTES = 512 << 20
MODULES = {"file": ["virtio_pci", "virtio_blk"], "dax": ["nfit", "nd_pmem"]}
FILESYSTEM_MODULES = {"ext4": ["ext4"], "xfs": ["xfs"]}


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Of a store that has them, from its creation on."""
    chunk_bytes: int
    versions_kept: int
    whole_chunks: bool = False


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    medium: str
    filesystem: str
    chunks: Chunks | None = None  # none: a redo log
    transactions: bool = False  # each step is one
    copies: bool = False  # two of the home image
    objects: str = ""  # logged ones with this history, and each step is a call

    @property
    def device(self):
        return "vda" if self.medium == "file" else "pmem0"

    @property
    def whole_sectors(self):
        """Those that the file system relies on not being torn."""
        return 8 if self.filesystem == "ext4" else DISK_BYTES // 512

    @property
    def modules(self):
        return MODULES[self.medium] + FILESYSTEM_MODULES[self.filesystem]

    @property
    def proofs(self):
        if self.medium == "dax":
            return {"map_sync"}
        # Objects write one thing after the other, for which no ring is needed.
        return {"write_cache", "direct_io"} | (set() if self.objects else {"io_uring"})

    @property
    def acknowledges(self):
        """The first word of the line that says that something is durable."""
        return "step" if self.objects else "ack"

    @property
    def settings(self):
        """What guest.cc and init.sh are told."""
        words = {"DEVICE": self.device, "FILESYSTEM": self.filesystem, "MEDIUM": self.medium}
        if self.chunks is not None:
            words |= {"CHUNK_BYTES": self.chunks.chunk_bytes,
                      "VERSIONS_KEPT": self.chunks.versions_kept,
                      "WHOLE_CHUNKS": int(self.chunks.whole_chunks)}
        if self.transactions:
            words["TRANSACTIONS"] = 1
        if self.copies:
            words["COPIES"] = 1
        if self.objects:
            words["OBJECTS"] = self.objects
        return words


CONFIGS = {config.name: config for config in (
    *(Config(f"{medium}-{filesystem}", medium, filesystem)
      for medium in ("dax", "file") for filesystem in ("ext4", "xfs")),
    Config("file-ext4-chunks", "file", "ext4", Chunks(64 << 10, versions_kept=3)),
    # So small that their maps have nodes.
    Config("file-xfs-chunks", "file", "xfs", Chunks(4 << 10, versions_kept=4)),
    Config("file-ext4-flash", "file", "ext4", Chunks(64 << 10, versions_kept=2, whole_chunks=True)),
    Config("dax-xfs-chunks", "dax", "xfs", Chunks(16 << 10, versions_kept=2)),
    Config("file-ext4-transactions", "file", "ext4", transactions=True),
    Config("dax-xfs-transactions", "dax", "xfs", transactions=True),
    Config("file-ext4-copies", "file", "ext4", copies=True),
    Config("dax-xfs-copies", "dax", "xfs", copies=True),
    Config("file-ext4-objects", "file", "ext4", objects="none"),
    Config("dax-xfs-objects", "dax", "xfs", objects="last"),
)}


class Loss(Exception):
    """The store did not survive."""


class Missing(Loss):
    """An acknowledged version is not there."""


class NotBooted(Exception):
    """The kernel hung before it ran the program: nobody touched the store."""


# --- the kernel and what the machine boots --------------------------------------------------------


class Kernel:
    """A kernel package unpacked into a folder."""

    def __init__(self, folder):
        self.image = next(folder.glob("boot/vmlinuz-*"))
        self.version = self.image.name.removeprefix("vmlinuz-")
        self.modules = folder / "lib/modules" / self.version
        self.dependencies = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            path, needed = line.split(":")
            self.dependencies[path] = needed.split()
        builtin = (self.modules / "modules.builtin").read_text().split()
        self.builtin = {self.module_name(path) for path in builtin}

    @staticmethod
    def module_name(path):
        return Path(path).name.split(".")[0].replace("-", "_")

    def files_of(self, names):
        wanted = set()
        for path, needed in self.dependencies.items():
            if self.module_name(path) in names:
                wanted.update([path, *needed])
        return wanted


def copy_with_libraries(program, root):
    """Copy a program and every library that it loads to where it finds them."""
    shutil.copy2(program, root / "bin" / Path(program).name)
    for line in subprocess.check_output(["ldd", program], text=True).splitlines():
        for word in line.split():
            if word.startswith("/"):
                target = root / word.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(os.path.realpath(word), target)


def make_initramfs(kernel, programs, target):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("bin", "dev", "proc", "sys", "mnt"):
            (root / folder).mkdir()
        shutil.copy2(shutil.which("busybox"), root / "bin/busybox")
        shutil.copy2(Path(__file__).parent / "init.sh", root / "init")
        for program in (*programs, shutil.which("mkfs.ext4"), shutil.which("mkfs.xfs")):
            copy_with_libraries(program, root)
        modules = root / "lib/modules" / kernel.version
        names = {name for config in CONFIGS.values() for name in config.modules}
        for path in kernel.files_of(names):
            (modules / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kernel.modules / path, modules / path)
        for name in ("modules.dep", "modules.builtin"):
            shutil.copy2(kernel.modules / name, modules / name)
        paths = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with target.open("wb") as out:
            subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, stdout=out,
                           input=paths.encode(), stderr=subprocess.DEVNULL, check=True)


# --- the machine ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Bench:
    """What all machines share."""
    kernel: Kernel
    initramfs: Path
    plugin: Path
    failed: Path  # where the disks of failures are kept


class Machine:
    """A virtual machine that runs, and the disk it runs on."""

    CUT_NOW = 0xFFFFFFFF

    def __init__(self, bench, config, image, folder, settings, disk_seed, lies):
        self.console = folder / "console.log"
        self.disk_log = folder / "disk.log"
        self.sockets = tempfile.TemporaryDirectory()
        self.disk = None
        self.control = None
        self.told = {}
        if config.medium == "file":
            path = f"{self.sockets.name}/disk"
            self.control, theirs = socket.socketpair()
            with theirs, self.disk_log.open("w") as log:
                self.disk = subprocess.Popen(
                    ["nbdkit", "--foreground", "--exit-with-parent", "--unix", path, bench.plugin,
                     f"image={image}", f"control={theirs.fileno()}", f"seed={disk_seed}",
                     f"whole={config.whole_sectors}", f"lie={int(lies)}"],
                    pass_fds=[theirs.fileno()], stderr=log)
            device = ["-blockdev", f"driver=nbd,node-name=disk,server.type=unix,"
                      f"server.path={path},open-timeout=30",
                      "-device", "virtio-blk-pci,drive=disk,write-cache=on"]
        else:
            device = ["-object", f"memory-backend-file,id=disk,share=on,mem-path={image},"
                      f"size={DISK_BYTES}", "-device", "nvdimm,memdev=disk"]
        # The kernel's tests of its ciphers patch its code, which sometimes hangs in emulation.
        words = {**config.settings, **settings,
                 "MODULES": ",".join(m for m in config.modules if m not in bench.kernel.builtin)}
        command_line = " ".join(
            ["console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable cryptomgr.notests",
             *(f"{name}={value}" for name, value in words.items())])
        self.machine = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc,nvdimm=on", "-accel", "tcg,thread=multi",
             "-cpu", "max", "-smp", "2", "-m", "512M,slots=2,maxmem=2G", "-nodefaults",
             "-no-user-config", "-display", "none", "-no-reboot", *device,
             "-serial", f"file:{self.console}",
             "-chardev", "stdio,id=host,signal=off", "-serial", "chardev:host",
             "-kernel", bench.kernel.image, "-initrd", bench.initramfs, "-append", command_line],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=(folder / "machine.log").open("w"))

    def arm(self, requests):
        """Let the disk cut the power after so many more writes and flushes."""
        with contextlib.suppress(BrokenPipeError):  # hear_disk says what ended it
            self.control.send(struct.pack("=I", requests))

    def sources(self):
        """What can be waited for: the serial port, and a disk that has cut the power."""
        port = [self.machine.stdout]
        return port if self.control is None or self.told else [*port, self.control]

    def hear_disk(self):
        line = self.control.makefile().readline()
        if not line:
            raise RuntimeError(f"nbdkit ended with {self.disk.wait()}: "
                               + self.disk_log.read_text(errors="replace")[-1000:])
        self.told = json.loads(line)

    def cut(self):
        """First the disk's power, if it has not cut that: it does not bear that its user goes."""
        if self.disk is not None and not self.told:
            self.arm(self.CUT_NOW)
            self.hear_disk()
        self.machine.kill()

    def end(self):
        """The power is off. Returns what the disk tells about the cut."""
        self.cut()
        self.machine.wait()
        self.machine.stdout.close()
        if self.disk is not None:
            self.disk.kill()
            self.disk.wait()
            self.control.close()
        self.sockets.cleanup()
        return self.told


def fnv1a(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


class Lines:
    """The whole lines that a machine sends."""

    def __init__(self):
        self.rest = b""
        self.count = 0

    def add(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            text, _, checksum = line.decode(errors="replace").rpartition(" ")
            number, _, words = text.partition(" ")
            self.count += 1
            if number != str(self.count) or checksum != str(fnv1a(text + " ")):
                raise RuntimeError(f"the serial port lost something: line {self.count}: {line!r}")
            yield words


# --- what must be there ---------------------------------------------------------------------------


class Journal:
    """Which versions were acknowledged, and what they hold; and steps by themselves."""

    def __init__(self, acks=()):
        # Version, least steps, most steps. Steps by themselves: of version 0, the first of all.
        self.acks = [tuple(ack) for ack in acks]

    def add(self, words):
        least, most = words.split(" / ")
        version, *least = map(int, least.split())
        self.acks.append((version, least, list(map(int, most.split()))))

    def add_step(self, words):
        shard, step = map(int, words.split())
        if not self.acks or self.acks[0][0] != 0:
            self.acks.insert(0, (0, [0] * SHARDS, [sys.maxsize] * SHARDS))
        least = self.acks[0][1]
        least[shard] = max(least[shard], step)

    def steps(self):
        return sum(self.acks[0][1]) if self.acks and self.acks[0][0] == 0 else 0

    @staticmethod
    def parse(words):
        version, *steps = map(int, words.split())
        if len(steps) != SHARDS:
            raise RuntimeError(f"the ledger has {len(steps)} shards, {SHARDS} are expected")
        return version, steps

    def version(self):
        return max((version for version, _, _ in self.acks), default=0)

    def judge(self, words):
        """Raise Missing unless what was recovered holds every acknowledged version, and is it."""
        found, steps = self.parse(words)
        if found < self.version():
            raise Missing(f"version {self.version()} was acknowledged, {found} is left")
        for version, least, most in self.acks:
            for shard in range(SHARDS):
                if steps[shard] < least[shard]:
                    raise Missing(f"step {least[shard]} of shard {shard} was acknowledged with "
                                  f"version {version}, version {found} has {steps[shard]}")
                if version == found and steps[shard] > most[shard]:
                    raise Missing(f"version {found} has step {steps[shard]} of shard {shard}, "
                                  f"which began after it: step {most[shard]} was the last")

    def judge_older(self, words):
        """Raise Missing unless an older version holds what was acknowledged up to it, and nothing
        that began after a later one."""
        found, steps = self.parse(words)
        for version, least, most in self.acks:
            for shard in range(SHARDS):
                if version <= found and steps[shard] < least[shard]:
                    raise Missing(f"step {least[shard]} of shard {shard} was acknowledged with "
                                  f"version {version}, version {found}, which is kept, has "
                                  f"{steps[shard]}")
                if version >= found and steps[shard] > most[shard]:
                    raise Missing(f"version {found}, which is kept, has step {steps[shard]} of "
                                  f"shard {shard}, and version {version} step {most[shard]} at "
                                  f"most")


@dataclasses.dataclass
class Plan:
    """What one boot does, drawn from the seed."""
    stage: str  # the power is cut after this line; "" for never
    delay_s: float
    requests: int  # that the disk may still have after that; negative: cut at once
    life_seed: int
    disk_seed: int

    @staticmethod
    def draw(seed, config, cut):
        draw = random.Random(f"{seed} {config.name} {cut}")
        stage = draw.choices(["mounting", "opening", "ack"], [1, 2, 7])[0]
        delay_s = draw.uniform(0, {"mounting": 0.3, "opening": 0.6, "ack": 2.0}[stage])
        requests = -1
        if config.medium == "file" and draw.random() < 0.75:
            requests = draw.randrange(30)
            delay_s = delay_s if stage == "ack" else 0
        if stage == "ack":
            stage = config.acknowledges
        return Plan(stage, delay_s, requests, draw.getrandbits(63), draw.getrandbits(63))


@dataclasses.dataclass
class Outcome:
    """What was seen in all boots of a configuration."""
    acknowledged: int = 0
    recovered: int = 0
    older: int = 0
    checked_pages: int = 0
    checked_chunks: int = 0
    not_booted: int = 0
    cut_by_disk: int = 0
    cut_at: dict = dataclasses.field(default_factory=dict)
    proofs: dict = dataclasses.field(default_factory=dict)
    disk: dict = dataclasses.field(default_factory=dict)


def copy_image(source, target):
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", source, target], check=True)


class Campaign:
    """One configuration, cut by cut."""

    def __init__(self, bench, config, seed, folder):
        self.bench = bench
        self.config = config
        self.seed = seed
        self.folder = folder
        self.image = folder / "disk.img"
        self.before = folder / "before.img"
        self.journal = Journal()
        self.outcome = Outcome()

    def format(self):
        with self.image.open("wb") as out:
            out.truncate(DISK_BYTES)

    def boot(self, plan, first=False, lies=False):
        """One boot; raises Loss when what it finds is not what must be there."""
        settings = {"SEED": plan.life_seed, "STOP": int(not plan.stage), "FORMAT": int(first)}
        machine = Machine(self.bench, self.config, self.image, self.folder, settings,
                          plan.disk_seed, lies)
        finished = False
        try:
            finished = self.watch(machine, plan)
        finally:
            told = machine.end()
            for name, value in told.items():
                self.outcome.disk[name] = self.outcome.disk.get(name, 0) + value
        console = machine.console.read_text(errors="replace")
        ended = re.search(r"powercut_guest ended with (\d+)", console)
        if ended is not None and ended[1] != "0":
            raise Loss(f"the program in the machine ended with {ended[1]}; console.log may say why")
        if not finished:
            raise Loss("the machine stopped by itself")

    def watch(self, machine, plan):
        """Take the machine's lines until it is gone; cut its power when the time has come. Returns
        whether it came so far, or to the store's close if there is to be no cut."""
        lines = Lines()
        heard_at = time.monotonic()
        moment = None  # of the next step towards the cut
        is_armed = is_cut = closed = False
        while True:
            now = time.monotonic()
            if moment is not None and now >= moment:
                if plan.requests >= 0 and not is_armed:
                    machine.arm(plan.requests)
                    is_armed = True
                    moment = now + PATIENCE_S
                else:
                    machine.cut()
                    is_cut = True
                    moment = None
            until = heard_at + SILENCE_S if moment is None else moment
            ready = select.select(machine.sources(), [], [], max(0, until - now))[0]
            if not ready and moment is None and lines.count == 0:
                raise NotBooted
            if not ready and moment is None:
                raise Loss(f"the machine said nothing for {SILENCE_S} s")
            if machine.control in ready:
                machine.hear_disk()
                machine.cut()
                is_cut = True
                moment = None
                self.outcome.cut_by_disk += 1
            if machine.machine.stdout not in ready:
                continue
            data = os.read(machine.machine.stdout.fileno(), 1 << 16)
            if not data:
                break
            heard_at = time.monotonic()
            for words in lines.add(data):
                kind = words.split(" ")[0]
                closed |= kind == "closed"
                self.take(kind, words.removeprefix(kind).strip())
                if kind == plan.stage and moment is None and not is_armed and not is_cut:
                    moment = heard_at + plan.delay_s
        if is_cut:
            self.outcome.cut_at[plan.stage] = self.outcome.cut_at.get(plan.stage, 0) + 1
        return is_cut if plan.stage else closed

    def take(self, kind, words):
        if kind == "ack":
            self.journal.add(words)
            self.outcome.acknowledged += 1
        elif kind == "step":
            self.journal.add_step(words)
        elif kind == "recovered":
            self.journal.judge(words)
            self.outcome.recovered += 1
        elif kind == "kept":
            self.journal.judge_older(words)
            self.outcome.older += 1
        elif kind == "checked":
            pages, chunks = map(int, words.split())
            self.outcome.checked_pages += pages
            self.outcome.checked_chunks += chunks
        elif kind == "unchecked" and (self.journal.version() > 0 or self.journal.steps() > 0):
            raise Loss(f"the store cannot be checked: {words}")
        elif kind == "proof":
            self.outcome.proofs[words] = self.outcome.proofs.get(words, 0) + 1
        elif kind == "failed":
            raise Loss(words)

    def run(self, cuts):
        """Cut the power `cuts` times and check after each. Returns the number of cuts, and what was
        lost, or None."""
        self.format()
        for cut in range(cuts + 1):
            plan = Plan.draw(self.seed, self.config, cut)
            if cut == cuts:
                plan.stage = ""
            try:
                self.boot_and_keep(cut, plan)
            except Loss as loss:
                return cut, str(loss)
        if set(self.outcome.proofs) != self.config.proofs:
            raise RuntimeError(f"{self.config.name} proved only {sorted(self.outcome.proofs)}")
        if self.config.chunks is not None and self.outcome.older == 0:
            raise RuntimeError(f"{self.config.name}: no older version was ever opened")
        if (self.config.transactions or self.config.objects) and self.journal.steps() == 0:
            raise RuntimeError(f"{self.config.name}: no step was ever acknowledged")
        return cuts, None

    def boot_and_keep(self, cut, plan, lies=False, expected=()):
        """Boot after `cut` cuts; the disk as it was before is kept of a loss that is not expected.
        """
        copy_image(self.image, self.before)
        acks = list(self.journal.acks)
        try:
            self.boot_until_it_runs(plan, first=cut == 0, lies=lies)
        except expected:
            raise
        except Loss as loss:
            kept = self.keep_failure(cut, plan, acks, loss)
            raise type(loss)(
                f"{loss}\n  seed {self.seed}, cut {cut}; the disk as it left it is kept\n"
                f"  check it again: ./dev powercut --replay {kept}") from loss

    def boot_until_it_runs(self, plan, first, lies):
        for _ in range(BOOTS_MAX):
            try:
                self.boot(plan, first, lies)
                return
            except NotBooted:
                self.outcome.not_booted += 1
                copy_image(self.before, self.image)
        raise Loss(f"the machine's kernel hung {BOOTS_MAX} times before it ran anything")

    def keep_failure(self, cut, plan, acks, loss):
        kept = self.bench.failed / f"{self.config.name}-{self.seed}-{cut}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        self.before.rename(kept / "disk.img")
        for log in self.folder.glob("*.log"):
            shutil.copy2(log, kept / log.name)
        (kept / "case.json").write_text(json.dumps(
            {"config": self.config.name, "seed": self.seed, "cut": cut, "loss": str(loss),
             "life_seed": plan.life_seed, "acknowledged": acks}))
        return kept


def replay(bench, kept, folder):
    """Boot a copy of a kept disk and judge it again. Returns what is lost, or None."""
    case = json.loads((kept / "case.json").read_text())
    campaign = Campaign(bench, CONFIGS[case["config"]], case["seed"], folder)
    campaign.journal = Journal(case["acknowledged"])
    copy_image(kept / "disk.img", campaign.image)
    copy_image(campaign.image, campaign.before)
    try:
        plan = Plan("", 0, -1, case["life_seed"], 0)
        campaign.boot_until_it_runs(plan, first=case["cut"] == 0, lies=False)
    except Loss as loss:
        return str(loss)
    return None


def detects_lies(bench, seed, folder):
    """A disk that acknowledges flushes and ignores them must cost an acknowledged version: else
    this test could not fail. Its file system is sound, only older. Returns whether that happened,
    and what did."""
    campaign = Campaign(bench, CONFIGS["file-ext4"], f"{seed}-control", folder)
    campaign.format()
    for cut in range(4):
        plan = Plan.draw(campaign.seed, campaign.config, cut)
        plan.stage = "ack"
        try:
            campaign.boot_and_keep(cut, plan, lies=cut > 0, expected=(Missing,))
        except Missing as missing:
            return True, str(missing)
        except Loss as loss:
            return False, str(loss)
    return False, "nothing lost in 3 cuts"


# --- the command ----------------------------------------------------------------------------------


def run_config(bench, config, cuts, seed, folder):
    start = time.monotonic()
    folder.mkdir()
    campaign = Campaign(bench, config, seed, folder)
    done, problem = campaign.run(cuts)
    seconds = time.monotonic() - start
    outcome = campaign.outcome
    print(f"{config.name}: {done} cuts, {outcome.acknowledged} versions and "
          f"{campaign.journal.steps()} single steps acknowledged, {seconds:.0f} s: {'LOST: ' + problem if problem else 'none lost'}", flush=True)
    return {"config": config.name, "cuts": done, "acknowledged": outcome.acknowledged,
            "steps": campaign.journal.steps(),
            "lost": int(problem is not None), "seconds": round(seconds, 1), "seed": seed,
            "cut_at": outcome.cut_at, "cut_by_disk": outcome.cut_by_disk,
            "not_booted": outcome.not_booted, "recoveries": outcome.recovered,
            "older_versions_opened": outcome.older, "home_pages_checked": outcome.checked_pages,
            "chunks_checked": outcome.checked_chunks, "proofs": outcome.proofs,
            **({"disk": outcome.disk} if outcome.disk else {}),
            **({"problem": problem} if problem else {})}


def run_control(bench, seed, folder):
    start = time.monotonic()
    folder.mkdir()
    detected, what = detects_lies(bench, seed, folder)
    print(f"control, a disk that lies about flushes: {'' if detected else 'NOT '}DETECTED, "
          f"{time.monotonic() - start:.0f} s: {what}", flush=True)
    return detected


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev powercut", description=__doc__.split("\n")[0])
    parser.add_argument("configs", metavar="CONFIG", nargs="*", help=", ".join(CONFIGS))
    parser.add_argument("--cuts", metavar="N", type=int, default=10, help="for each; default 10")
    parser.add_argument("--seed", metavar="S", type=int, help="of a run to repeat")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results here")
    parser.add_argument("--replay", metavar="FOLDER", type=Path,
                        help="check a disk again that a failure kept")
    parser.add_argument("--kernel", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in arguments.configs:
        if name not in CONFIGS:
            parser.error(f"no configuration '{name}'; there are: {', '.join(CONFIGS)}")
    if arguments.cuts < 1:
        parser.error("--cuts takes a number from 1")
    return arguments


def main():
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work, prefix="run-") as name:
        folder = Path(name)
        bench = Bench(Kernel(arguments.kernel), folder / "initramfs",
                      arguments.build / "volatile_disk.so", arguments.work / "failed")
        make_initramfs(bench.kernel, [arguments.build / "powercut_guest"], bench.initramfs)

        if arguments.replay is not None:
            problem = replay(bench, arguments.replay, folder)
            print(f"lost: {problem}" if problem else "nothing lost")
            return int(problem is not None)

        seed = arguments.seed
        if seed is None:
            seed = random.SystemRandom().getrandbits(32)
        print(f"seed {seed}", flush=True)
        configs = [CONFIGS[name] for name in arguments.configs or CONFIGS]
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            control = pool.submit(run_control, bench, seed, folder / "control")
            runs = [pool.submit(run_config, bench, config, arguments.cuts, seed,
                                folder / config.name) for config in configs]
            results = [run.result() for run in runs]
            detected = control.result()
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(
            {"seed": seed, "cuts": sum(result["cuts"] for result in results),
             "lost": sum(result["lost"] for result in results), "configs": results,
             "control_detected": detected}, indent=2) + "\n")
    return int(not detected or any(result["lost"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
