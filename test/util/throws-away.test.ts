/** Commands in the sandbox that are worth a question, since nothing brings back what they take. */
import { expect, test } from "vitest";
import { simpleCommands } from "../../src/util/shell.ts";
import { throwsAway } from "../../src/util/throws-away.ts";

test.each([
  "rm -rf src .git big.log",
  "rm -fr dist",
  "rm --recursive old",
  "/bin/rm -r a",
  "sudo rm -R /",
  "env A=1 rm -rf x",
  "xargs rm -rf",
  "rm .git/index",
  "find . -name *.o -delete",
  "find . -exec rm {} ;",
  "shred notes.txt",
  "git reset --hard HEAD~3",
  "git -C sub reset --hard",
  "git clean -fdx",
  "git checkout -- .",
  "git checkout -f main",
  "git restore src",
  "git stash clear",
  "git branch -D work",
  "git reflog expire --all",
  "git update-ref -d refs/heads/main",
  "git filter-branch --all",
  "rm -rf $OUT",
  "make > log.txt; rm -v -rf build",
  "for d in a b; do rm -r $d; done",
  "sh -c 'git reset -q --hard'",
  "git clean -fd > /dev/null",
])("%s", (command) => {
  expect(throwsAway(command, simpleCommands(command))).toBe(true);
});

test.each([
  "",
  "rm out.o",
  "rm -f out.o",
  "ls -r",
  "find . -name rm.txt",
  "git status",
  "git reset HEAD a.txt",
  "git clean -n",
  "git checkout -b new",
  "git restore --staged a.txt",
  "git stash",
  "git branch -d merged",
  "git commit -m rm -r",
  "npm run clean",
  "grep -r rm .",
  "rm $FILE",
  "echo x > rm.txt",
])("%s is nothing to ask about", (command) => {
  expect(throwsAway(command, simpleCommands(command))).toBe(false);
});
