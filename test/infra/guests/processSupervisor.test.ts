/** Runs the conformance suite against the supervisors that carry guests as processes of this machine. */
import { describeWith } from "../../suites/guestHarness.ts"
import { supervisorSuite } from "../../suites/supervisor.ts"

await describeWith("bubblewrap", () => supervisorSuite("bubblewrap", 20))
await describeWith("unshare", () => supervisorSuite("unshare", 8))
