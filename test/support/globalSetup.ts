/** Global set-up of the suite. */
export default function setup(): void {}
