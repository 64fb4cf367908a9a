# Many objects in four threads, other programs, and children that change what they inherit. Prints
# what must not depend on where the memory comes from.
import hashlib
import os
import random
import subprocess
import sys
import threading

COUNT = 15000
objects = {}


def work(key):
    source = random.Random(key)
    mine = {}
    for i in range(COUNT):
        mine[i] = [str(i), (i, i * i), {"value": source.random()}, bytearray(i % 700)]
        if i % 3 == 0:
            mine.pop(i // 2, None)
    objects[key] = mine


def digest():
    text = repr(sorted((key, sorted(mine.items())) for key, mine in objects.items()))
    return hashlib.sha256(text.encode()).hexdigest()


threads = [threading.Thread(target=work, args=(key,)) for key in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(digest())

script = "echo a shell; /usr/bin/python3 -c 'print(sum(range(1000)))' | cat"
print(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout)
changed_directory = subprocess.run(
    ["pwd"], capture_output=True, text=True, check=True, preexec_fn=lambda: os.chdir("/usr"))
print(changed_directory.stdout, flush=True)

for number in range(4):
    child = os.fork()
    if child == 0:
        for mine in objects.values():
            for i in range(number, COUNT, 7):
                mine.pop(i, None)
            mine["new"] = [bytearray(1000) for _ in range(500)]
        objects[4] = {0: "x" * 1000000}
        print("child", number, [len(mine) for mine in objects.values()], flush=True)
        if number % 2 == 0:
            os._exit(number)
        sys.exit(number)
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(digest())
