import { useEffect, useRef } from 'react';

/** Calls `then` once a value has not changed for a while. */
export function useSettled<T>(value: T, ms: number, then: (value: T) => void): void {
  const call = useRef(then);
  call.current = then;
  useEffect(() => {
    const timer = setTimeout(() => call.current(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
}
