import './app.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { newQueryClient } from './data';
import { newRouter } from './router';

/** The console behind the sign-in. Its cache lives and dies with it, so nothing outlives a sign-out. */
export function App() {
  const [{ queries, router }] = useState(() => {
    const queries = newQueryClient();
    return { queries, router: newRouter(queries) };
  });
  useEffect(
    () => () => {
      queries.clear();
      router.history.destroy();
    },
    [queries, router],
  );
  return (
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  );
}
