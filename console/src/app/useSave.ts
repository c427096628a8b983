import type { FormInstance } from 'antd';
import { useState } from 'react';
import { type ApiProblem, asProblem } from '../api/problem';

/** `scopes[0].permissions[1]` as the path that a form knows the input by. */
export function fieldPath(field: string): (string | number)[] {
  return field
    .split(/[.[\]]+/)
    .filter((p) => p !== '')
    .map((p) => (/^\d+$/.test(p) ? Number(p) : p));
}

/**
 * Sends a form once at a time. What the server refuses stands beside the input it names; what names none is in
 * `problem`. Nothing that was typed is lost.
 */
export function useSave<V>(form: FormInstance, send: (values: V) => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();

  async function save(values: V) {
    setBusy(true);
    setProblem(undefined);
    try {
      await send(values);
    } catch (err) {
      const p = asProblem(err);
      let placed = 0;
      for (const f of p.fieldErrors()) {
        const name = fieldPath(f.field);
        if (form.getFieldInstance(name) !== undefined || form.getFieldValue(name) !== undefined) {
          form.setFields([{ name, errors: [f.detail] }]);
          placed++;
        }
      }
      setProblem(placed > 0 && placed === p.fieldErrors().length ? undefined : p);
    } finally {
      setBusy(false);
    }
  }

  return { busy, problem, save, reset: () => setProblem(undefined) };
}
