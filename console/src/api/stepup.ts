/**
 * Some acts change who can get in, and the server refuses them when the last proof of who sits there is too old. Then
 * the user is asked once, and the call is made again. Without anybody to ask, the refusal is the answer.
 */

type Send = (request: Request) => Promise<Response>;

export class StepUp {
  private asking: Promise<boolean> | null = null;
  private waiting: ((proved: boolean) => void) | null = null;
  private readonly listeners = new Set<() => void>();

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Whether somebody is to be asked now. */
  get open(): boolean {
    return this.waiting !== null;
  }

  /** Ends the question: `proved` says whether the calls that wait are made again. */
  answer(proved: boolean): void {
    const done = this.waiting;
    this.waiting = null;
    this.asking = null;
    this.tell();
    done?.(proved);
  }

  /** Sends a request, and once more after a proof when the server asks for one. */
  around(send: Send, newKey: () => string): Send {
    return async (request) => {
      const again = request.clone();
      const response = await send(request);
      if (response.status !== 403 || (await codeOf(response)) !== 'step_up_required' || !(await this.ask())) {
        return response;
      }
      const headers = new Headers(again.headers);
      if (headers.has('Idempotency-Key')) {
        // The refused call did nothing, and its key may stand for the refusal.
        headers.set('Idempotency-Key', newKey());
      }
      return send(new Request(again, { headers }));
    };
  }

  /** Calls at the same time share one question. */
  private ask(): Promise<boolean> {
    if (this.listeners.size === 0) {
      return Promise.resolve(false);
    }
    this.asking ??= new Promise<boolean>((resolve) => {
      this.waiting = resolve;
      this.tell();
    });
    return this.asking;
  }

  private tell(): void {
    for (const l of [...this.listeners]) {
      l();
    }
  }
}

/** The code of a problem, read from a copy, so that the answer can still be read. */
export async function codeOf(response: Response): Promise<string> {
  try {
    const body = (await response.clone().json()) as { code?: unknown };
    return typeof body?.code === 'string' ? body.code : '';
  } catch {
    return '';
  }
}
