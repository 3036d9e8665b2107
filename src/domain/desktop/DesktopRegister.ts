/**
 * The desktops of this process, in memory: which are admitted, which are being prepared, and the fence that takes both
 * away. It decides and performs nothing. Every decision is one call, so that nothing comes between a look at the fence and
 * what is done upon it.
 *
 *     prepare ─> admit ─> end        fence(project): a stop        dispose: fences all, and admits nothing ever after
 */
import * as Latch from "effect/Latch"
import { desktopsMax, desktopViewersMax } from "../Bounds.ts"
import type { ProjectId } from "../Identity.ts"

/** Something that a fence takes away: a preparation, or an admitted desktop. */
export interface Fenced {
  readonly project: ProjectId
  isFenced: boolean
  /** Opens with the fence. Whoever works on it, or looks at it, gives up then. */
  readonly fenced: Latch.Latch
}

/** An admitted desktop with what its owner keeps of it. */
export interface Admitted<Kept> extends Fenced {
  readonly kept: Kept
  viewers: number
}

const fence = (one: Fenced): void => {
  one.isFenced = true
  one.fenced.openUnsafe()
}

export const makeDesktopRegister = <Kept>() => {
  const admitted = new Map<ProjectId, Admitted<Kept>>()
  const preparing = new Set<Fenced>()
  let isDisposed = false

  /** Still the desktop of its Project, and nobody has fenced it. Source: SP-DESK-04. */
  const isAdmitted = (desktop: Admitted<Kept>): boolean =>
    !isDisposed && !desktop.isFenced && admitted.get(desktop.project) === desktop

  const fenceProject = (project: ProjectId): void => {
    const desktop = admitted.get(project)
    if (desktop !== undefined) fence(desktop)
    for (const one of preparing) if (one.project === project) fence(one)
  }

  return {
    isAdmitted,
    isDisposed: (): boolean => isDisposed,
    isPreparing: (project: ProjectId): boolean => [...preparing].some((one) => one.project === project),
    /** The desktop that is there, fenced or not: what is fenced has yet to be ended. */
    find: (project: ProjectId): Admitted<Kept> | undefined => admitted.get(project),
    /** Begins a piece of work on the Project's desktop. Fenced from the beginning where all are. Null: too many. */
    prepare: (project: ProjectId): Fenced | null => {
      const others = preparing.size + admitted.size - (admitted.has(project) ? 1 : 0)
      if (others >= desktopsMax) return null
      const one: Fenced = { project, isFenced: isDisposed, fenced: Latch.makeUnsafe(isDisposed) }
      preparing.add(one)
      return one
    },
    prepared: (one: Fenced): void => void preparing.delete(one),
    /** Makes a prepared one the Project's desktop, unless the preparation was fenced; then nothing is admitted. */
    admit: (one: Fenced, kept: Kept): Admitted<Kept> | null => {
      if (isDisposed || one.isFenced || admitted.has(one.project)) return null
      const desktop: Admitted<Kept> = {
        project: one.project,
        isFenced: false,
        fenced: Latch.makeUnsafe(false),
        kept,
        viewers: 0
      }
      admitted.set(one.project, desktop)
      return desktop
    },
    /** Lets a viewer in; `fenced` and `full` let nobody in. */
    enter: (desktop: Admitted<Kept>): "entered" | "fenced" | "full" => {
      if (!isAdmitted(desktop)) return "fenced"
      if (desktop.viewers >= desktopViewersMax) return "full"
      desktop.viewers += 1
      return "entered"
    },
    leave: (desktop: Admitted<Kept>): void => void (desktop.viewers -= 1),
    fence: fenceProject,
    /** Fences one desktop and nothing that takes its place. */
    fenceOne: (desktop: Admitted<Kept>): void => fence(desktop),
    /** Forgets a desktop that has been ended. */
    end: (desktop: Admitted<Kept>): void => {
      fence(desktop)
      if (admitted.get(desktop.project) === desktop) admitted.delete(desktop.project)
    },
    /** Fences everything, for good, and answers the Projects that somebody works on or that have a desktop. */
    dispose: (): ReadonlyArray<ProjectId> => {
      isDisposed = true
      const projects = new Set([...admitted.keys(), ...[...preparing].map(({ project }) => project)])
      for (const project of projects) fenceProject(project)
      return [...projects]
    }
  }
}

export type DesktopRegister<Kept> = ReturnType<typeof makeDesktopRegister<Kept>>
