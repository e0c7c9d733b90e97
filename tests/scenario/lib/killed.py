"""A program that is killed at each write of a change, one after the other, and started again."""
from .wait import wait_for

MOST_WRITES = 60  # of one change: it has far fewer


class KilledAtEachWrite:
    """Steps that a test describes, each again and again: killed at its first write, its second, … until no write is left.

    start(env=…) starts a program. killer.arm(n, program) has it killed at the n-th write from then on, disarm() lets it
    live. killer.strikes: the kill is under way, and all may look settled before the program is dead. A subclass has the
    steps and check(), which asserts that all is as it should be after the last step.
    """

    def __init__(self, start, killer):
        self.start, self.killer = start, killer
        self.one = None
        self.n_kills = 0

    def check(self):
        raise NotImplementedError

    def seen(self):
        """What check() looks at, to be shown when it does not come true."""
        return None

    def begin(self):
        self.one = self.start(env=self.killer.environment)
        self.settle()

    def run(self, *steps):
        done = {step: False for step in steps}
        for n in range(1, MOST_WRITES):
            for step in steps:
                done[step] = not self.killed_at(n, step) if not done[step] else self.quietly(step)
            if all(done.values()):
                return
        raise AssertionError(f"killed {self.n_kills} times, and no end")

    def quietly(self, step):
        step()
        self.settle()
        return True

    def killed_at(self, n, step):
        """Was it?"""
        self.killer.arm(n, self.one)
        step()
        wait_for(lambda: not self.one.running or self.is_settled(), what="an end, of this or that kind", seen=self.seen)
        self.killer.disarm()
        if self.killer.strikes:
            wait_for(lambda: not self.one.running, what="the kill that is under way")
        if self.one.running:
            return False
        self.n_kills += 1
        self.one.kill()  # noted as meant
        self.one = self.start(env=self.killer.environment)
        self.settle()
        return True

    def settle(self):
        wait_for(self.is_settled, what="all to be as wanted", seen=self.seen)

    def is_settled(self):
        self.check()
        return True
