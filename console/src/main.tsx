import './tokens.css';
import './light/light.css';
import { createRoot } from 'react-dom/client';
import { startI18n } from './i18n';
import { Root } from './Root';

startI18n().then(() => {
  const at = document.getElementById('root');
  if (at) {
    // Not in StrictMode: it mounts everything twice, and the router of the console is bound to the one history.
    createRoot(at).render(<Root />);
  }
});
