import type { components } from './schema';

export type ProblemBody = components['schemas']['Problem'];
export type FieldError = components['schemas']['FieldError'];

/** How a page shows a failure: each kind has its own look and its own way out. */
export type ProblemKind =
  | 'signed_out'
  | 'refused'
  | 'missing'
  | 'invalid'
  | 'conflict'
  | 'quota'
  | 'rate'
  | 'unavailable'
  | 'offline'
  | 'failed';

/** A failed call of the API, or one that never got an answer. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly requestId: string | undefined;
  readonly field: string | undefined;
  readonly errors: readonly FieldError[];
  readonly quota: ProblemBody['quota'];
  readonly retryAfter: number | undefined;

  constructor(p: {
    status: number;
    code: string;
    title?: string;
    detail?: string;
    requestId?: string;
    field?: string;
    errors?: readonly FieldError[];
    quota?: ProblemBody['quota'];
    retryAfter?: number;
    cause?: unknown;
  }) {
    super(p.detail || p.title || p.code, { cause: p.cause });
    this.name = 'ApiProblem';
    this.status = p.status;
    this.code = p.code;
    this.title = p.title ?? '';
    this.detail = p.detail ?? '';
    this.requestId = p.requestId;
    this.field = p.field;
    this.errors = p.errors ?? [];
    this.quota = p.quota;
    this.retryAfter = p.retryAfter;
  }

  get kind(): ProblemKind {
    switch (this.code) {
      case 'offline':
        return 'offline';
      case 'quota_exceeded':
        return 'quota';
      case 'rate_limited':
        return 'rate';
    }
    switch (this.status) {
      case 400:
      case 422:
        return 'invalid';
      case 401:
        return 'signed_out';
      case 403:
        return 'refused';
      case 404:
        return 'missing';
      case 409:
      case 412:
        return 'conflict';
      case 429:
        return 'rate';
      case 502:
      case 503:
      case 504:
        return 'unavailable';
    }
    return 'failed';
  }

  /** Whether the same call may work when it is simply made again. */
  get retriable(): boolean {
    return this.kind === 'offline' || this.kind === 'unavailable' || this.kind === 'rate';
  }

  /** The inputs to blame, by path; one without a path is left to the message as a whole. */
  fieldErrors(): FieldError[] {
    if (this.errors.length > 0) {
      return this.errors.filter((e) => e.field !== '');
    }
    return this.field ? [{ field: this.field, code: this.code, detail: this.detail }] : [];
  }
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v);
}

function text(v: unknown): string | undefined {
  return typeof v === 'string' && v !== '' ? v : undefined;
}

/**
 * The problem in an answer of status 400 or more. A body that is no problem document (a proxy's page, half an answer)
 * still gives a problem with the status and the request id of the header.
 */
export function problemOf(response: Response, body: unknown): ApiProblem {
  const header = response.headers.get('X-Request-Id') ?? undefined;
  const after = Number(response.headers.get('Retry-After') ?? Number.NaN);
  const retryAfter = Number.isFinite(after) ? after : undefined;
  if (!isObject(body)) {
    return new ApiProblem({
      status: response.status,
      code: `http_${response.status}`,
      title: response.statusText,
      requestId: header,
      retryAfter,
    });
  }
  const p = body as Partial<ProblemBody>;
  return new ApiProblem({
    status: response.status,
    code: text(p.code) ?? `http_${response.status}`,
    title: text(p.title) ?? response.statusText,
    detail: text(p.detail),
    requestId: text(p.request_id) ?? header,
    field: text(p.field),
    errors: Array.isArray(p.errors) ? p.errors.filter((e) => isObject(e) && typeof e.field === 'string') : [],
    quota: isObject(p.quota) ? p.quota : undefined,
    retryAfter: typeof p.retry_after === 'number' ? p.retry_after : retryAfter,
  });
}

/** The problem behind anything that was thrown; an abort is none and is thrown on. */
export function asProblem(err: unknown): ApiProblem {
  if (err instanceof ApiProblem) {
    return err;
  }
  if (err instanceof DOMException && err.name === 'AbortError') {
    throw err;
  }
  // fetch reports every failure of the network as a TypeError, without a reason that may be shown.
  if (err instanceof TypeError && /fetch|network|load failed/i.test(err.message)) {
    return new ApiProblem({ status: 0, code: 'offline', cause: err });
  }
  const detail = err instanceof Error ? err.message : String(err);
  return new ApiProblem({ status: 0, code: 'console', detail, cause: err });
}
