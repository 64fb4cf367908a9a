#!/usr/bin/env python3
"""Compile a source of which lines must be refused, each with its sentence:

    check.py SOURCE COMPILER FLAG...

    KEEP(std::string);  // refused: use perdura::string

The compiler must name each such line beside an error that the regular expression finds, and none
beside other errors. Compiled with -DACCEPTED the same source has no such line left, and must pass.
"""
import re
import subprocess
import sys


def blocks_of(output, notes_first):
    """The lines of each error: what GCC says of where it was met comes first, Clang's notes last."""
    blocks = [[]]
    for line in output.splitlines():
        is_error = re.search(r'\b(fatal )?error: ', line) is not None
        if is_error and not notes_first:
            blocks.append([])
        blocks[-1].append(line)
        if is_error and notes_first:
            blocks.append([])
    return ['\n'.join(block) for block in blocks]


def main():
    source, *compile_it = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        wanted = {number: line.split('// refused: ', 1)[1].strip()
                  for number, line in enumerate(file, 1) if '// refused: ' in line}
    is_clang = 'clang' in subprocess.run(compile_it[:1] + ['--version'], stdout=subprocess.PIPE,
                                         text=True, check=True).stdout
    unlimited = ['-ferror-limit=0'] if is_clang else []
    refused = subprocess.run(compile_it + unlimited + [source], stderr=subprocess.PIPE, text=True, check=False)
    blocks = blocks_of(refused.stderr, notes_first=not is_clang)
    failed = []
    for number, reason in wanted.items():
        here = [block for block in blocks if re.search(rf'{re.escape(source)}:{number}:', block)]
        if not any(re.search(rf'error: [^\n]*{reason}', block) for block in here):
            failed.append(f'{source}:{number}: not refused with "{reason}"\n' + '\n'.join(here))
    accepted = subprocess.run(compile_it + ['-DACCEPTED', source], stderr=subprocess.PIPE, text=True,
                              check=False)
    if accepted.returncode != 0:
        failed.append('with -DACCEPTED:\n' + accepted.stderr)
    print('\n'.join(failed) if failed else f'{len(wanted)} lines are refused')
    return 1 if failed or not wanted else 0


if __name__ == '__main__':
    sys.exit(main())
