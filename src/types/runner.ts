/** Runner: who advances a response that has been created. `local` does it in this process. */

export interface Runner {
  submit(responseId: string): void;
  /** Resolves when nothing is under way any more. */
  stop(): Promise<void>;
}
